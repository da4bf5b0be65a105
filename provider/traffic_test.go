package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/wire"
)

// makeIdle makes the pair's connection idle on both sides.
func (p *pair) makeIdle() {
	p.tb.Helper()
	p.pass(2*time.Second + p.eng[0].cfg.IdleAfter)
	for i := range 2 {
		if use := p.eng[i].PoolUse(); use != (PoolUse{}) || p.conn(i) == nil || p.conn(i).traffic != nil {
			p.tb.Fatalf("side %d is not idle: %+v", i, use)
		}
	}
}

// inUse makes both ends send so many packets that the connection keeps its traffic for Config.IdleAfter (newFor).
func (p *pair) inUse() *pair {
	p.tb.Helper()
	for range newFor {
		for i := range 2 {
			p.post(i, p.write(i, 0, 64))
			p.runUntilIdle()
			p.outcomes(i, OutcomeSuccess)
		}
	}
	return p
}

// TestTrafficAfterIdling moves data by all operations, lets the connection become idle, and moves data again, while packets are
// lost.
func TestTrafficAfterIdling(t *testing.T) {
	p := newPair(t, 1408).connect()
	for round := range byte(6) {
		p.makeIdle()
		p.link[0].loseNth, p.link[1].loseNth = 5, 7
		const n = 60000
		p.fill(0, 0, n, 2*round+1)
		p.fill(1, 1<<20, n, 2*round+2)
		p.receive(1, 2<<20, n)
		p.receive(0, 2<<20, n)
		p.post(0, p.write(0, 0, n))
		p.post(0, p.send(0, n))
		p.post(1, p.send(1, 10))
		r := p.read(1<<20, n)
		p.post(0, r)
		p.pass(time.Second)
		p.link[0].loseNth, p.link[1].loseNth = 0, 0
		for side, want := range []int{4, 2} {
			rs := p.results(side)
			if len(rs) != want || slices.ContainsFunc(rs, func(r Result) bool { return r.Outcome != OutcomeSuccess }) {
				t.Fatalf("round %d, side %d: %+v", round, side, rs)
			}
		}
		if !p.all(1, 0, n, 2*round+1) || !p.all(1, 2<<20, n, 2*round+1) || !p.all(0, 1<<20, n, 2*round+2) {
			t.Fatalf("round %d: wrong bytes", round)
		}
	}
	if p.eng[0].Stats().Retransmits == 0 {
		t.Error("nothing was lost")
	}
	p.makeIdle()
}

// TestIdleIsLeftByWhateverHappens applies every possible event to an idle connection. The pools must balance after the connection
// is gone.
func TestIdleIsLeftByWhateverHappens(t *testing.T) {
	for name, do := range map[string]func(p *pair){
		"post":           func(p *pair) { p.post(0, p.write(0, 0, 10)) },
		"post a receive": func(p *pair) { p.receive(0, 0, 10) },
		"flush":          func(p *pair) { p.qp[0].Flush() },
		"disconnect":     func(p *pair) { p.must(p.ctr[0].Disconnect(func(Outcome) {})) },
		"cancel":         func(p *pair) { _ = p.ctr[0].Disconnect(func(Outcome) {}); p.ctr[0].Cancel() },
		"close":          func(p *pair) { p.ctr[0].Close() },
		"release":        func(p *pair) { p.qp[0].Release() },
		"shut down":      func(p *pair) { p.eng[0].Shutdown() },
		"local fault":    func(p *pair) { r := p.write(0, 0, 10); r.SGL[0].Token++; p.post(0, r) },
		"remote fault":   func(p *pair) { r := p.write(0, 0, 10); r.Token++; p.post(0, r) },
		"no receive":     func(p *pair) { p.post(0, p.send(0, 10)) },
		"overrun": func(p *pair) {
			for p.eng[0].results.Complete(p.cq[0], &Result{}) {
			}
			p.post(0, p.write(0, 0, 10))
		},
		"dead peer":       func(p *pair) { p.link[1].mangle = func([]byte) bool { return false } },
		"forget the peer": func(p *pair) { c := p.conn(1); p.ctr[1].conn = nil; c.connector = nil; c.detachClosed(); c.vanish() },
		"late REQ":        func(p *pair) { p.conn(1).repeatAnswer() },
		"reset": func(p *pair) {
			m := wire.Reset{ConnID: p.conn(0).identity.peerID, Token: p.conn(0).identity.peerToken}
			v := p.eng[0].guard.reset(&RxPacket{From: p.conn(0).identity.remote}, m.Append(nil))
			if d := p.eng[0].onHomeOf(v.known, v.do); d != wire.DropNone {
				p.tb.Fatal(d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect()
			p.makeIdle()
			do(p)
			for i := range p.eng { // every call of an application ends with finishTurn
				p.eng[i].finishTurn()
			}
			p.pass(time.Minute)
			for i := range 2 {
				p.ctr[i].Close()
				p.qp[i].Release()
				p.eng[i].finishTurn()
			}
			p.pass(time.Minute)
			for i := range 2 {
				if use, s := p.eng[i].PoolUse(), p.eng[i].Stats(); use != (PoolUse{}) || s.Connections != 0 {
					t.Errorf("side %d: %+v in use by %d connections", i, use, s.Connections)
				}
			}
		})
	}
}

// TestKeepAlivesLeaveIdlenessShortly: a keep-alive and its answer take traffic state only until both are over. Contents keep it.
func TestKeepAlivesLeaveIdlenessShortly(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.makeIdle()
	asked, before := 0, p.eng[0].Stats().PacketsIn
	for range 4000 {
		p.pass(p.eng[0].cfg.KeepAlive / 1000)
		asked += p.conn(0).alive.Asked()
		for i := range 2 {
			if use := p.eng[i].PoolUse(); use != (PoolUse{}) {
				t.Fatalf("side %d keeps %+v", i, use)
			}
		}
	}
	if got := p.eng[0].Stats().PacketsIn - before; got < 3 || asked != 0 {
		t.Errorf("%d packets came in four times the allowed silence, %d keep-alives without an answer", got, asked)
	}
	p.link[0].mangle = func(b []byte) bool { return opcode(b) != wire.CtlPong } // an unanswered keep-alive is under way
	for range 2000 {
		if p.pass(p.eng[0].cfg.KeepAlive / 1000); p.conn(0).alive.Asked() > 0 {
			break
		}
	}
	if p.conn(0).alive.Asked() == 0 || p.conn(0).traffic == nil {
		t.Errorf("%d keep-alives are unanswered, and the traffic state is %p", p.conn(0).alive.Asked(), p.conn(0).traffic)
	}
	p.link[0].mangle = nil
	p.post(0, p.write(0, 0, 64))
	p.pass(p.eng[0].cfg.IdleAfter / 20)
	p.outcomes(0, OutcomeSuccess)
	for i := range 2 {
		if use := p.eng[i].PoolUse(); use.Traffic != 1 {
			t.Errorf("side %d had contents and has %+v", i, use)
		}
	}
}

// TestNoRestWhileSomethingIsUnderWay: a connection does not become idle while a READ is unanswered, a SEND waits for a receive, or
// a packet waits behind a gap.
func TestNoRestWhileSomethingIsUnderWay(t *testing.T) {
	for name, post := range map[string]func(p *pair){
		"read":         func(p *pair) { p.loseFirst(0, 1<<30, wire.OpReadResp); p.post(0, p.read(0, 64)) },
		"blocked send": func(p *pair) { p.post(0, p.send(0, 64)) },
		"unanswered":   func(p *pair) { p.link[0].mangle = func([]byte) bool { return false }; p.post(0, p.write(0, 0, 64)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect()
			for i := range p.eng {
				p.eng[i].cfg.IdleAfter = time.Millisecond
			}
			p.pass(2 * time.Second)
			post(p)
			for range 100 {
				p.pass(10 * time.Millisecond)
				if p.conn(0) == nil || p.conn(0).traffic == nil {
					t.Fatal("idle with something under way")
				}
			}
		})
	}
}

// TestSmallMessagesKeepTheirTraffic: a connection whose messages follow each other within Config.IdleAfter keeps its traffic state,
// and needs no memory for more transmissions.
func TestSmallMessagesKeepTheirTraffic(t *testing.T) {
	p := newPair(t, 1408).connect().inUse()
	p.makeIdle()
	var had *traffic
	for i := range 50 {
		p.post(0, p.write(0, 0, 64))
		p.pass(900 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if i > 0 && p.conn(0).traffic != had {
			t.Fatalf("message %d allocated traffic state again", i)
		}
		had = p.conn(0).traffic
	}
	if use := p.eng[0].PoolUse(); use != (PoolUse{Traffic: 1}) {
		t.Errorf("in use: %+v", use)
	}
}

// TestNewConnectionsRestSoon: a connection that has sent little gives its traffic back after a tenth of Config.IdleAfter, and one in use
// after Config.IdleAfter.
func TestNewConnectionsRestSoon(t *testing.T) {
	p := newPair(t, 1408).connect()
	after := p.eng[0].cfg.IdleAfter
	uses := func(what string, want int) {
		t.Helper()
		for i := range 2 {
			if use := p.eng[i].PoolUse(); use.Traffic != want {
				t.Errorf("%s, side %d has %+v, want traffic %d", what, i, use, want)
			}
		}
	}
	p.runUntilIdle()
	uses("after the handshake", 1)
	p.pass(after / 5)
	uses("a fifth later", 0)
	p.inUse()
	uses("in use", 1)
	p.pass(after * 9 / 10)
	uses("before its time", 1)
	p.pass(after / 5)
	uses("after its time", 0)
}

// TestNumbersGrow fills the connection's small ring of transmission records. A larger ring replaces it in the middle of a flight.
// The flight begins at many positions of the ring, and packets are lost before and after.
func TestNumbersGrow(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp().inUse()
	for start := 0; start <= 2*shortNumbers; start += 7 {
		p.makeIdle()
		for range start {
			p.post(0, p.write(0, 0, 64))
			p.runUntilIdle()
		}
		p.results(0)
		if use := p.eng[0].PoolUse(); use.Numbers != 0 {
			t.Fatalf("%+v for small messages", use)
		}
		p.link[1].loseNth = 3 + start/3
		p.link[0].mangle = func([]byte) bool { return p.eng[0].PoolUse().Numbers > 0 } // until more packets are in flight than the small ring holds
		p.conn(0).leaveIdle()
		p.conn(0).traffic.sent.cc.Reset(&congestion.Fixed{Packets: 100}, int(p.conn(0).mtu.Packet))
		p.fill(0, 0, 80*1408, byte(start))
		p.post(0, p.write(0, 0, 80*1408))
		p.pass(500 * time.Millisecond)
		p.link[1].loseNth, p.link[0].mangle = 0, nil
		p.outcomes(0, OutcomeSuccess)
		if !p.all(1, 0, 80*1408, byte(start)) {
			t.Fatal("wrong bytes")
		}
		if use := p.eng[0].PoolUse(); use.Numbers != 1 {
			t.Fatalf("in use: %+v", use)
		}
	}
}
