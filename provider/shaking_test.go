package provider

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/shake"
	"github.com/ndxdp/ndxdp/wire"
)

// usual is a handshake of usual size: a ClientHello in two REQs, a certificate in two packets.
var usual = shakertest.Plan{Hello: 1500, Rest: 1700}

// shakeMeeting is a meeting whose two ends have TLS handshakes with these plans.
type shakeMeeting struct {
	*meeting
	sides [2]*shakertest.Side
}

func newShakeMeeting(t *testing.T, client, server shakertest.Plan) *shakeMeeting {
	t.Helper()
	m := &shakeMeeting{meeting: newMeeting(t, 8), sides: [2]*shakertest.Side{shakertest.Fixed(true, client), shakertest.Fixed(false, server)}}
	m.l.shaker = m.sides[1]
	m.must(m.ctr[0].UseTLS(m.sides[0]))
	return m
}

// arrivals calls look with each control packet on its way to side, its message parsed as far as it is in plain. If look returns false, the
// packet is lost.
func (m *meeting) arrivals(side int, look func(b []byte, h wire.BaseHeader, msg wire.Control) bool) {
	m.link[side].mangle = func(b []byte) bool {
		h, _ := wire.ParseBaseHeader(b)
		var msg wire.Control
		if !h.Secure() && h.Control() {
			if at, d := wire.ContentOffset(b); d == wire.DropNone {
				msg, _ = wire.ParseControl(b, at, len(b))
			}
		}
		return look(b, h, msg)
	}
}

// open establishes the connection.
func (m *shakeMeeting) open() *shakeMeeting {
	m.tb.Helper()
	m.get().connect().pass(10 * time.Second)
	return m.answer()
}

// answer establishes the connection of a request that must have arrived.
func (m *shakeMeeting) answer() *shakeMeeting {
	m.tb.Helper()
	m.got.must(m.tb, OutcomeSuccess)
	m.accept().pass(10 * time.Second)
	m.connected.must(m.tb, OutcomeSuccess)
	m.complete().pass(10 * time.Second)
	m.accepted.must(m.tb, OutcomeSuccess)
	m.completed.must(m.tb, OutcomeSuccess)
	return m
}

// over fails unless every handshake was closed and nothing is left.
func (m *shakeMeeting) over() {
	m.tb.Helper()
	m.ctr[0].Close()
	m.ctr[1].Close()
	m.clean()
	for i, s := range m.sides {
		if begun, closed := s.Counts(); begun != closed {
			m.tb.Errorf("side %d closed %d of %d handshakes", i, closed, begun)
		}
		if use := m.eng[i].PoolUse(); use != (PoolUse{}) {
			m.tb.Errorf("side %d: %+v", i, use)
		}
	}
}

// failed fails the test unless the attempt ended with o on the active side, and the listener heard of nothing.
func (m *shakeMeeting) failed(o Outcome) {
	m.tb.Helper()
	m.connected.must(m.tb, o)
	if m.got.times != 0 {
		m.tb.Errorf("the listener heard of a request: %v", m.got.outcome)
	}
	if m.ctr[0].State() != CtrBound || m.qp[0].State() != QPIdle || m.ctr[0].TLS() != nil {
		m.tb.Errorf("connector %v, queue pair %v, state of TLS %v", m.ctr[0].State(), m.qp[0].State(), m.ctr[0].TLS())
	}
}

// Handshakes of every size complete, and everything that must be secret travels sealed (PROTOCOL §10.2).
func TestShaking(t *testing.T) {
	for _, plan := range []shakertest.Plan{{}, {Hello: 200, Rest: 100}, usual, {Hello: shake.MaxHello, Rest: 5000}, {Hello: 1, Rest: shake.MaxLevel}} {
		m := newShakeMeeting(t, plan, plan)
		for side := range 2 {
			m.arrivals(side, func(b []byte, _ wire.BaseHeader, msg wire.Control) bool {
				switch {
				case bytes.Contains(b, m.limits[0].Private):
					t.Error("private data are in plain")
				case msg.Opcode == wire.CtlREQ:
					var h wire.Hello
					if wire.ParseHello(msg.Body, &h) != wire.DropNone || h.IRD|h.ORD != 0 || h.ReceiveLimit != 0 || h.ResetToken != [16]byte{} || h.Private != nil {
						t.Errorf("a REQ in plain says %+v", h)
					}
				case msg.Opcode == wire.CtlSHAKE, msg.Opcode == 0:
				default:
					t.Errorf("%v is in plain", msg.Opcode)
				}
				return true
			})
		}
		m.open()
		for side := range 2 {
			state, ok := m.ctr[side].TLS().(shakertest.State)
			if !ok || state.Remote.IP != pairIP[1-side] || m.ctr[side].TLSFailure() != nil {
				t.Errorf("plan %+v, side %d: %v, %v", plan, side, state, m.ctr[side].TLSFailure())
			}
			s := m.eng[side].Stats()
			if s.Handshakes != 1 || s.HandshakesFailed != 0 || s.Drops[wire.DropTag]+s.Drops[wire.DropShake]+s.Drops[wire.DropPlain] != 0 {
				t.Errorf("plan %+v, side %d: %+v", plan, side, s.DropsByName())
			}
		}
		if m.conn(0).end.shaking != nil || m.conn(1).end.shaking != nil {
			t.Error("the handshake is not over")
		}
		m.exchange(10_000, 3)
		m.over()
	}
}

// A handshake without loss takes no timer: not for the ServerHello's successors, which overtake its keys, and not for the sealed REQ,
// which overtakes the verification of the client.
func TestShakingWaitsForNoTimer(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	var later [2][]func()
	for i, s := range m.sides {
		s.Later = func(f func()) { later[i] = append(later[i], f) }
	}
	m.get().connect()
	for range 20 {
		m.runUntilIdle()
		for i := range later {
			todo := later[i]
			later[i] = nil
			for _, f := range todo {
				f()
			}
		}
	}
	m.got.must(t, OutcomeSuccess)
	if m.now > m.conn(0).handshake.HeardAt.Add(time.Millisecond) {
		t.Error("a timer ran")
	}
	for side := range 2 {
		if s := m.eng[side].Stats(); s.DropsByName() != nil && len(s.DropsByName()) != 0 {
			t.Errorf("side %d: %v", side, s.DropsByName())
		}
	}
}

// Handshakes complete over a network that loses, repeats and reorders their packets, with workers that are late and busy.
func TestShakingOverBadNetworks(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		plan := shakertest.Plan{Hello: 1 + rng.IntN(shake.MaxHello), Rest: 1 + rng.IntN(shake.MaxLevel)}
		m := newShakeMeeting(t, plan, plan)
		var late []func()
		for i, s := range m.sides {
			s.Later = func(f func()) { late = append(late, f) }
			s.Busy = func() bool { return rng.IntN(5) == 0 }
			p := m.link[i]
			p.mangle = func([]byte) bool { return rng.IntN(4) != 0 }
			p.disturb = func() bool {
				if p.count > 1 && rng.IntN(3) == 0 {
					a, b := &p.inbox[(p.head+p.count-1)%len(p.inbox)], &p.inbox[(p.head+p.count-2)%len(p.inbox)]
					*a, *b = *b, *a
				}
				return rng.IntN(5) == 0
			}
		}
		m.get().connect()
		for range 100 {
			m.pass(100 * time.Millisecond)
			todo := late
			late = nil
			for _, f := range todo {
				f()
			}
		}
		m.answer()
		m.link[0].mangle, m.link[1].mangle, m.link[0].disturb, m.link[1].disturb = nil, nil, nil, nil
		m.over()
	}
}

// A side that refuses its peer tells the peer the alert, and the listener never hears of the request.
func TestShakingRefused(t *testing.T) {
	refuses := usual
	refuses.Refuse = 42
	for _, byClient := range []bool{true, false} {
		for _, loss := range []int{0, 3} {
			m := newShakeMeeting(t, usual, refuses)
			if byClient {
				m = newShakeMeeting(t, refuses, usual)
			}
			rng := rand.New(rand.NewPCG(uint64(loss), 9))
			for i := range 2 {
				m.link[i].mangle = func([]byte) bool { return loss == 0 || rng.IntN(loss) != 0 }
			}
			m.get().connect().pass(9 * time.Second)
			f := m.ctr[0].TLSFailure()
			if byClient {
				m.failed(OutcomeAborted)
			} else {
				m.failed(OutcomeRefused)
			}
			if f == nil || f.Alert != 42 || errors.Is(f, shakertest.ErrRefused) != byClient {
				t.Errorf("by the client %v: %+v", byClient, f)
			}
			m.pass(10 * time.Second)
			for i := range 2 {
				m.link[i].mangle = nil
				if s := m.eng[i].Stats(); s.Connections != 0 || s.HandshakesFailed == 0 && (i == 1 || byClient) {
					t.Errorf("by the client %v, side %d: %+v", byClient, i, s)
				}
			}
			m.must(m.ctr[0].UseTLS(shakertest.Fixed(true, usual)))
			m.l.shaker = shakertest.Fixed(false, usual)
			m.connected = promise{}
			m.connect().pass(time.Second)
			m.got.must(t, OutcomeSuccess)
			if m.ctr[0].TLSFailure() != nil {
				t.Error("the failure of the attempt before is still told")
			}
		}
	}
}

// Policy: whoever wants TLS never gets a connection without it, on either side.
func TestTLSPolicy(t *testing.T) {
	for _, c := range []struct {
		dials, listens, allowsPlain bool
		cause                       Cause
		ok                          bool
	}{
		{dials: true, listens: false, cause: CausePeerHasNoTLS},
		{dials: false, listens: true, cause: CausePeerWantsTLS},
		{dials: false, listens: true, allowsPlain: true, ok: true},
		{dials: true, listens: true, allowsPlain: true, ok: true},
	} {
		m := newShakeMeeting(t, usual, usual)
		m.l.allowPlain = c.allowsPlain
		if !c.dials {
			m.must(m.ctr[0].UseTLS(nil))
		}
		if !c.listens {
			m.l.shaker = nil
		}
		m.get().connect().pass(time.Second)
		if c.ok {
			m.got.must(t, OutcomeSuccess)
			if (m.ctr[1].TLS() != nil) != c.dials {
				t.Errorf("%+v: state of TLS %v", c, m.ctr[1].TLS())
			}
			continue
		}
		m.failed(OutcomeRefused)
		if m.ctr[0].Cause() != c.cause || m.ctr[0].TLSFailure() != nil {
			t.Errorf("%+v: cause %v, failure %v", c, m.ctr[0].Cause(), m.ctr[0].TLSFailure())
		}
		if s := m.eng[1].Stats(); s.Refused == 0 {
			t.Errorf("%+v: %d were refused", c, s.Refused)
		}
	}
}

// The backlog fills while TLS computes. If the application has set the backlog, the request is refused. If not, it is dropped and repeated
// until there is room, as a REQ in plain is.
func TestBacklogFillsDuringHandshake(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		m := newShakeMeeting(t, usual, usual)
		m.l.allowPlain = true
		var later []func()
		m.sides[1].Later = func(f func()) { later = append(later, f) }
		m.connect().runUntilIdle()
		other := m.eng[0].NewConnector()
		if m.sides[1].Later = nil; bounded {
			m.l.backlog = 1
			m.must(other.connect(m.eng[0].NewQP(QPConfig{ReceiveCQ: m.cq[0], InitiatorCQ: m.cq[0]}), wire.Endpoint{IP: pairIP[0]}, m.at, ConnectParams{}, func(Outcome) {}))
			m.runUntilIdle()
		} else {
			m.l.backlog, m.l.queue = guard.MaxBacklog, make([]*conn, guard.MaxBacklog)
		}
		full := m.l.Queued()
		for _, f := range later {
			f()
		}
		m.pass(time.Second)
		s := m.eng[1].Stats()
		if m.l.Queued() != full || s.Drops[wire.DropBacklog] == 0 {
			t.Errorf("bounded %v: %d requests are queued, want %d; %d were dropped", bounded, m.l.Queued(), full, s.Drops[wire.DropBacklog])
		}
		if bounded {
			m.failed(OutcomeRefused)
			if f := m.ctr[0].TLSFailure(); f != nil {
				t.Errorf("TLS is blamed: %v", f)
			}
		} else {
			if m.connected.times != 0 || s.Drops[wire.DropBacklog] < 2 || m.ctr[0].State() != CtrConnecting {
				t.Fatalf("Connect ended %d times with %v after %d repetitions", m.connected.times, m.connected.outcome, s.Drops[wire.DropBacklog])
			}
			m.l.queue = nil
			m.get().pass(2 * time.Second)
			m.answer()
		}
		other.Close()
		m.over()
	}
}

// A connector takes another configuration only before Connect, a listener only before Listen.
func TestUseTLSInTime(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	if o := m.l.UseTLS(m.sides[1], false); o != OutcomeInvalidState {
		t.Errorf("a listener that listens: %v", o)
	}
	m.get().connect()
	if o := m.ctr[0].UseTLS(nil); o != OutcomeConnectionActive {
		t.Errorf("a connector that connects: %v", o)
	}
	m.ctr[0].Close()
	m.ctr[1].Close()
	m.over()
}

// An attempt that is canceled at any moment of the handshake leaves nothing, at either side, and the peer hears of it.
func TestShakingCanceled(t *testing.T) {
	for after := range 12 {
		for _, who := range []int{0, 1} {
			m := newShakeMeeting(t, usual, usual)
			arrived := 0
			for i := range 2 {
				m.link[i].mangle = func([]byte) bool {
					arrived++
					return arrived <= after
				}
			}
			m.get().connect().runUntilIdle()
			if who == 0 {
				m.ctr[0].Close()
			} else {
				m.ctr[1].Close()
				m.l.Close()
			}
			m.link[0].mangle, m.link[1].mangle = nil, nil
			m.pass(11 * time.Second)
			if who == 1 && m.connected.times != 1 {
				t.Errorf("after %d packets: Connect has not ended", after)
			}
			m.over()
		}
	}
}

// The engine ends, and with it every handshake.
func TestShakingEndsWithTheEngine(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	m.sides[1].Later = func(func()) {} // a worker that never runs
	m.get().connect().runUntilIdle()
	for i := range 2 {
		m.eng[i].Shutdown()
		if begun, closed := m.sides[i].Counts(); begun != 1 || closed != 1 {
			t.Errorf("side %d closed %d of %d handshakes", i, closed, begun)
		}
	}
}
