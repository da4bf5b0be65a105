package provider

import (
	"reflect"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// nobody is a source address that no other test uses, of several.
func nobody(i int) guard.Source { return guard.Source{14: 1, 15: byte(i % 8)} }

// halfFull is the smallest number of half-open connections, of one source each, at which every REQ needs a cookie.
const halfFull = guard.Unproven

// fillBacklogs makes the engine demand a cookie for every REQ, as if an attacker had filled its backlogs. emptyBacklogs reverts it.
func (e *Engine) fillBacklogs() {
	for i := range halfFull {
		e.guard.Sources.Move(nobody(i), guard.ShareNone, guard.ShareHalfOpen)
	}
}

func (e *Engine) emptyBacklogs() {
	for i := range halfFull {
		e.guard.Sources.Move(nobody(i), guard.ShareHalfOpen, guard.ShareNone)
	}
}

// Under load the handshake takes one more round trip, whichever packets are lost (PROTOCOL §7.5).
func TestConnectWithACookie(t *testing.T) {
	for _, lose := range []wire.Opcode{0xff, wire.CtlRETRY, wire.CtlREQ, wire.CtlPEND, wire.CtlREP} {
		m := newMeeting(t, 4).get()
		m.eng[1].fillBacklogs()
		m.loseFirst(0, 1, lose)
		if lose == wire.CtlREQ {
			m.link[0].mangle = nil
			m.loseFirst(1, 1, lose)
		}
		m.connect().pass(3 * time.Second)
		m.got.must(t, OutcomeSuccess)
		m.accept().pass(3 * time.Second)
		m.connected.must(t, OutcomeSuccess)
		m.complete().runUntilIdle()
		m.completed.must(t, OutcomeSuccess)
		m.accepted.must(t, OutcomeSuccess)
		if s := m.eng[1].Stats(); s.CookiesSent == 0 || s.CookiesRefused != 0 || s.Established != 1 {
			t.Errorf("%v lost: %+v", lose, s)
		}
		if private, _ := m.ctr[1].Private(); string(private) != "hello" {
			t.Errorf("private data %q", private)
		}
		m.eng[1].emptyBacklogs()
		m.ctr[0].Close()
		m.ctr[1].Close()
		m.clean()
	}
}

// A ClientHello in several REQs gets one RETRY, whose cookie all its parts have. If the first part is lost, the repetition gets it.
func TestOneRetryForAClientHello(t *testing.T) {
	for _, parts := range []int{1, 2, 4} {
		for _, lose := range []int{-1, 0} {
			plan := shakertest.Plan{Hello: parts * wire.MaxHelloBytes}
			m := newShakeMeeting(t, plan, plan)
			m.eng[1].fillBacklogs()
			retries, reqs := 0, 0
			m.arrivals(0, func(_ []byte, _ wire.BaseHeader, msg wire.Control) bool {
				if msg.Opcode == wire.CtlRETRY {
					retries++
				}
				return true
			})
			m.arrivals(1, func(_ []byte, _ wire.BaseHeader, msg wire.Control) bool {
				if msg.Opcode != wire.CtlREQ {
					return true
				}
				reqs++
				return reqs != lose+1
			})
			m.get().connect().runUntilIdle()
			if lose < 0 && (retries != 1 || reqs != 2*parts) || lose == 0 && (retries != 0 || reqs != parts) {
				t.Errorf("%d parts, part %d lost: %d RETRYs after %d REQs", parts, lose, retries, reqs)
			}
			m.pass(time.Second)
			s := m.eng[1].Stats()
			if retries != 1 || s.CookiesSent != 1 || s.CookiesRefused != 0 || s.Drops[wire.DropRate] == 0 && parts > 1 {
				t.Errorf("%d parts, part %d lost: %d RETRYs, %+v", parts, lose, retries, s)
			}
			m.answer()
			m.eng[1].emptyBacklogs()
			m.over()
		}
	}
}

// A receive posted between the REQ and its retransmission does not make the cookie invalid.
func TestCookieSurvivesAPostedReceive(t *testing.T) {
	m := newMeeting(t, 4).get()
	m.eng[1].fillBacklogs()
	m.connect()
	m.receive(0, 0, 10)
	m.runUntilIdle()
	m.got.must(t, OutcomeSuccess)
	if s := m.eng[1].Stats(); s.CookiesRefused != 0 {
		t.Errorf("%+v", s)
	}
}

// A peer that sends RETRY again and again with new cookies neither keeps an attempt alive nor makes it send without limit.
func TestEndlessRetry(t *testing.T) {
	m := newMeeting(t, 4).get()
	m.link[1].mangle = func([]byte) bool { return false }
	m.connect()
	c := m.conn(0)
	retry := func(cookie byte) {
		f := &forged{from: wire.Endpoint{IP: pairIP[1], Port: wire.SourcePort(0)}}
		f.control(wire.CtlRETRY, make([]byte, wire.CookieLen))
		f.body[wire.ControlHeaderLen] = cookie
		f.fields.ConnID = c.identity.id
		m.inject(0, f)
		m.eng[0].Run(m.now)
	}
	before := m.eng[0].Stats().PacketsOut
	for i := range byte(200) {
		retry(i)
		retry(i) // a copy
	}
	if n := m.eng[0].Stats().PacketsOut - before; n != lifetime.MaxCookies {
		t.Errorf("%d requests", n)
	}
	if d := m.eng[0].Stats().Drops[wire.DropState]; d != 400-lifetime.MaxCookies {
		t.Errorf("%d dropped", d)
	}
	m.pass(4990 * time.Millisecond)
	retry(201)
	m.pass(20 * time.Millisecond)
	m.connected.must(t, OutcomeIOTimeout)
}

// A RETRY has no effect on a connector that did not send a REQ, or whose REQ was answered.
func TestRetryOutOfPlace(t *testing.T) {
	m := newMeeting(t, 4).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
	f := m.forge(0)
	f.control(wire.CtlRETRY, make([]byte, wire.CookieLen))
	m.inject(0, f)
	m.runUntilIdle()
	if m.ctr[0].State() != CtrAccepted {
		t.Error(m.ctr[0].State())
	}
	m.complete().runUntilIdle()
	m.completed.must(t, OutcomeSuccess)
}

// One host makes ten thousand connections to one listener, hundreds at once. The default limits allow that, and ask for no cookie if the
// listener answers at once.
func TestManyConnectionsFromOneHost(t *testing.T) {
	const n, batch = 10000, 500
	if raceEnabled {
		t.Skip("the same under the race detector takes minutes")
	}
	w := newWorld(newLanes(), 4*batch, Config{})
	w.listen()
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	done := 0
	for range n / batch {
		for range batch {
			active, passive := w.eng[0].NewConnector(), w.eng[1].NewConnector()
			qp := [2]*QP{}
			for i := range qp {
				qp[i] = w.eng[i].NewQP(QPConfig{ReceiveCQ: w.cq[i], InitiatorCQ: w.cq[i], ReceiveDepth: 1, InitiatorDepth: 1})
			}
			if o := w.l.GetRequest(passive, func(Outcome) {}); o != OutcomeSuccess {
				t.Fatal(o)
			}
			if o := active.connect(qp[0], wire.Endpoint{IP: pairIP[0]}, at, ConnectParams{}, func(Outcome) {}); o != OutcomeSuccess {
				t.Fatal(o)
			}
			w.pass(0, func() {
				if passive.State() == CtrRequested {
					_ = passive.Accept(qp[1], ConnectParams{}, func(Outcome) { done++ })
				}
				if active.State() == CtrAccepted {
					_ = active.CompleteConnect(func(Outcome) {})
				}
			})
		}
		w.now = w.now.Add(time.Millisecond)
	}
	w.pass(time.Second, func() {})
	if s := w.eng[1].Stats(); done != n || s.Established != n || s.SourceLimited != 0 || s.CookiesSent != 0 {
		t.Errorf("%d of %d: %+v", done, n, s)
	}
}

// The memory of connections that have ended is small and bounded: the oldest ones are forgotten (I9).
func TestLingeringIsBounded(t *testing.T) {
	w := newWorld(newLanes(), 0, Config{})
	e := w.eng[1]
	most := 0
	for range guard.MaxEnded + 1000 {
		c := e.newConn(wire.Endpoint{IP: pairIP[1]}, wire.Endpoint{IP: pairIP[0]})
		c.phase = phaseRepSent
		c.open()
		c.linger(lifetime.Nothing, 0, nil)
		e.finishTurn()
		if c.traffic != nil {
			t.Fatal("records are kept")
		}
		most = max(most, int(e.stats.Connections))
		w.now += 1000
		e.now = w.now
	}
	if most != guard.MaxEnded || e.Stats().Forgotten != 1000 || e.group.conns.ended.Cap() > guard.MaxEnded {
		t.Errorf("%d linger, %d places, %d forgotten", most, e.group.conns.ended.Cap(), e.Stats().Forgotten)
	}
	w.pass(time.Minute, func() {})
	if e.Stats().Connections != 0 {
		t.Errorf("%d are left", e.Stats().Connections)
	}
	if size := reflect.TypeFor[conn]().Size(); size > 2400 {
		t.Errorf("a connection is %d bytes", size)
	}
}

// If ended connections fill the connection table, they are removed for new connections.
func TestFullTableForgetsTheOldest(t *testing.T) {
	w := newWorld(newLanes(), 0, Config{MaxConns: 4})
	e := w.eng[1]
	first := e.newConn(wire.Endpoint{}, wire.Endpoint{})
	first.phase = phaseOpen
	for range 3 {
		c := e.newConn(wire.Endpoint{}, wire.Endpoint{})
		c.phase = phaseOpen
		c.linger(lifetime.Nothing, 0, nil)
	}
	first.linger(lifetime.Nothing, 0, nil)
	oldest := e.group.conns.lookup(e.group.conns.ended.Oldest())
	for range 4 {
		if e.newConn(wire.Endpoint{}, wire.Endpoint{}) == nil {
			t.Fatal("no room")
		}
	}
	if oldest.phase != phaseFree || e.Stats().Forgotten != 4 || e.newConn(wire.Endpoint{}, wire.Endpoint{}) != nil {
		t.Errorf("%+v", e.Stats())
	}
}
