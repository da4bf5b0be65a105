package provider

import (
	"math/rand/v2"
	"testing"
)

// TestLineAgainstATwin joins and leaves at random.
func TestLineAgainstATwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var l line
	var twin []*conn
	for range 10000 {
		if rng.IntN(2) == 0 {
			c := &conn{}
			l.push(c)
			twin = append(twin, c)
		} else if len(twin) > 0 {
			if c := l.pop(); c != twin[0] || c.behind != nil {
				t.Fatal("not the first one, or still linked")
			}
			twin = twin[1:]
		}
		if l.n != len(twin) || (l.first == nil) != (l.n == 0) || (l.last == nil) != (l.n == 0) {
			t.Fatalf("%d in line, %d in the twin", l.n, len(twin))
		}
	}
}

// Whoever has not used up its share goes before those that have, each kind in the order of joining; who leaves has no turn.
func TestRoundTakesFreshConnectionsFirst(t *testing.T) {
	var r round
	conns := make([]*conn, 6)
	for i := range conns {
		conns[i] = &conn{traffic: &traffic{}}
		conns[i].deficit = i % 2 // the odd ones are fresh
		r.join(conns[i])
	}
	r.leave(conns[2])
	r.leave(conns[5])
	r.leave(conns[5]) // not in line any more
	for left, want := range []int{1, 3, 0, 4} {
		if r.waiting() != 4-left {
			t.Fatalf("%d wait, want %d", r.waiting(), 4-left)
		}
		if c := r.next(); c != conns[want] || c.inActive || c.behind != nil {
			t.Fatalf("turn %d is not that of connection %d", left, want)
		}
	}
	if r.waiting() != 0 || conns[2].inActive || conns[5].inActive {
		t.Error("somebody is left")
	}
}

// TestConnectingOnADeadCompletionQueue: the queue's users ended when it overran; who comes later ends when it connects.
func TestConnectingOnADeadCompletionQueue(t *testing.T) {
	p := newPair(t, 1408)
	for p.eng[1].results.Complete(p.cq[1], &Result{}) {
	}
	p.connect()
	p.runUntilIdle()
	if a, b := p.ctr[0].State(), p.ctr[1].State(); a != CtrLost || b != CtrLost {
		t.Errorf("the connectors are %v and %v", a, b)
	}
}

// A queue pair that is released twice leaves its completion queue once.
func TestReleasingTwiceIsHarmless(t *testing.T) {
	p := newPair(t, 1408)
	other := p.eng[0].NewQP(QPConfig{ReceiveCQ: p.cq[0], InitiatorCQ: p.cq[0], ReceiveDepth: 1, InitiatorDepth: 1})
	for range 2 {
		p.qp[0].Release()
		if users := p.cq[0].Users(); len(users) != 1 || users[0] != other {
			t.Errorf("%d users are left", len(users))
		}
	}
}
