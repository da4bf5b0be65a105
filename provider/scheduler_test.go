package provider

import (
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
)

// TestLineAgainstATwin makes random joins and leaves, and compares the line with a simple model.
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
			if c := l.pop(); c != twin[0] || c.places.behind != nil {
				t.Fatal("not the first one, or still linked")
			}
			twin = twin[1:]
		}
		if l.n != len(twin) || (l.first == nil) != (l.n == 0) || (l.last == nil) != (l.n == 0) {
			t.Fatalf("%d in line, %d in the twin", l.n, len(twin))
		}
	}
}

// Connections that have not used up their share go before the others, each group in the order of joining. A connection that leaves
// gets no turn.
func TestRoundTakesFreshConnectionsFirst(t *testing.T) {
	var r round
	conns := make([]*conn, 6)
	for i := range conns {
		conns[i] = &conn{traffic: &traffic{}}
		conns[i].traffic.deficit = i % 2 // the odd ones are fresh
		r.join(conns[i])
	}
	r.leave(conns[2])
	r.leave(conns[5])
	r.leave(conns[5]) // has left the line already
	for left, want := range []int{1, 3, 0, 4} {
		if r.waiting() != 4-left {
			t.Fatalf("%d wait, want %d", r.waiting(), 4-left)
		}
		if c := r.next(); c != conns[want] || c.places.inActive || c.places.behind != nil {
			t.Fatalf("turn %d is not that of connection %d", left, want)
		}
	}
	if r.waiting() != 0 || conns[2].places.inActive || conns[5].places.inActive {
		t.Error("somebody is left")
	}
}

// TestTurnsBesideSparseConnections: a poll sends only a small share of bulk data once another connection has sent something.
func TestTurnsBesideSparseConnections(t *testing.T) {
	f := newFleet(t, 2)
	e := f.eng[0]
	e.controller = &congestion.Fixed{Packets: 1000}
	post := func(i int, r *listed) {
		t.Helper()
		_, o := r.post(f.qps[0][i])
		f.must(o)
	}
	most := func() (most int) {
		for range 20 {
			f.turn()
			most = max(most, e.out.Bytes())
		}
		return most
	}
	const packet = 1408
	post(0, f.write(0, 0, 4<<20))
	if n := most(); n < mostShare-3*packet {
		t.Errorf("a turn of bulk alone sends %d bytes", n)
	}
	post(1, f.write(0, 0, 8))
	f.turn()
	if n := most(); n < smallShare-packet || n > smallShare+packet {
		t.Errorf("a turn of bulk beside a small Write sends %d bytes", n)
	}
}

// TestConnectingOnADeadCompletionQueue: the queue pairs of a completion queue ended when it overran. A later queue pair ends when
// it connects.
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
