package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// quoteOf returns the quote of an ICMP error about a REQ, with its UDP ports.
func (m *meeting) quoteOf(packet []byte) *Quote {
	var c *conn
	for c = range m.eng[0].group.conns.all {
		break
	}
	return &Quote{From: c.identity.local, To: wire.Endpoint{IP: pairIP[1], Port: m.eng[0].cfg.UDPPort}, Packet: packet}
}

// asks connects, loses the REQ, and returns its bytes.
func (m *meeting) asks() (req []byte) {
	m.tb.Helper()
	m.link[1].mangle = func(b []byte) bool {
		req = slices.Clone(b)
		return false
	}
	m.connect().runUntilIdle()
	m.pass(100 * time.Millisecond) // the third REQ
	if req == nil {
		m.tb.Fatal("no request was sent")
	}
	return req
}

// A quote may be truncated anywhere. The attempt ends with the meaning of the error (PROTOCOL §7.7), and the connector can be used
// again.
func TestUnreachableEndsTheAttempt(t *testing.T) {
	for _, n := range []int{0, 1, 3, 23, 24, 25, 28, 35, 36, 43, 44, 100, 1200} {
		for _, o := range []Outcome{OutcomeHostUnreachable, OutcomeNetworkUnreachable, OutcomeRefused} {
			m := newMeeting(t, 1)
			req := m.asks()
			if q := m.quoteOf(req[:n]); !m.eng[0].Unreachable(q, o) {
				t.Fatalf("a quote of %d bytes is not believed", n)
			} else if !m.eng[0].Unreachable(q, o) && n >= 36 {
				t.Errorf("%d bytes: the same quote is refused when it comes again", n)
			}
			m.connected.must(t, o)
			if _, heard := m.ctr[0].Private(); m.ctr[0].State() != CtrBound || m.qp[0].State() != QPIdle || !m.ctr[0].Returned() || heard == OutcomeSuccess {
				t.Errorf("connector %v, queue pair %v, returned %v, private data %v", m.ctr[0].State(), m.qp[0].State(), m.ctr[0].Returned(), heard)
			}
			m.link[1].mangle = nil
			m.connected = promise{}
			m.get().connect().runUntilIdle()
			m.got.must(t, OutcomeSuccess)
			if m.ctr[0].Returned() {
				t.Error("the next attempt returned as well")
			}
			m.accept().runUntilIdle()
			m.connected.must(t, OutcomeSuccess)
			m.complete().runUntilIdle()
			m.completed.must(t, OutcomeSuccess)
		}
	}
}

// "Port unreachable" counts from the third REQ on, because another process may take the port of a process that ended. "Network
// unreachable" counts at once.
func TestRefusedByTheThirdRequest(t *testing.T) {
	for o, at := range map[Outcome]time.Duration{OutcomeRefused: 55 * time.Millisecond, OutcomeHostUnreachable: 0, OutcomeNetworkUnreachable: 0} {
		m := newMeeting(t, 1)
		m.link[1].mangle = func([]byte) bool { return false }
		m.connect().runUntilIdle()
		begin := m.now
		for m.connected.times == 0 && m.now.Sub(begin) < time.Second {
			if !m.eng[0].Unreachable(m.quoteOf(nil), o) {
				t.Fatalf("%v is not believed after %v", o, m.now.Sub(begin))
			}
			if m.connected.times == 0 {
				m.pass(time.Millisecond)
			}
		}
		m.connected.must(t, o)
		if after := m.now.Sub(begin); after < at-10*time.Millisecond || after > at+10*time.Millisecond {
			t.Errorf("%v after %v, want about %v", o, after, at)
		}
	}
}

// If a REQ was repeated from another source port, an ICMP error has to quote the newest REQ. Nothing of the earlier port remains
// (PROTOCOL §6.1).
func TestUnreachableAfterAChangeOfPort(t *testing.T) {
	m := newMeeting(t, 1)
	first := m.asks()
	before := *m.quoteOf(first[:0])
	m.pass(300 * time.Millisecond)
	now := m.quoteOf(first[:0])
	if now.From.Port == before.From.Port {
		t.Fatal("the port did not change")
	}
	if m.eng[0].Unreachable(&before, OutcomeRefused) || !m.eng[0].Unreachable(now, OutcomeRefused) {
		t.Error("the port that is quoted is not that of now")
	}
	m.connected.must(t, OutcomeRefused)
	if n := len(m.eng[0].directory.asking); n != 0 {
		t.Errorf("%d requests wait for an answer", n)
	}
}

// A quote that differs from the REQ in any quoted field does not count.
func TestUnreachableNeedsTheRequest(t *testing.T) {
	flip := func(i int) func(*Quote) { return func(q *Quote) { q.Packet[i] ^= 0x40 } }
	for name, change := range map[string]func(*Quote){
		"version":       flip(0),
		"message":       flip(2),
		"offset":        flip(19),
		"id":            flip(15),
		"opcode":        flip(24),
		"REP":           func(q *Quote) { q.Packet[wire.ControlOffset] = byte(wire.CtlREP) },
		"sender's id":   flip(28),
		"slot in it":    flip(35),
		"nonce":         flip(43),
		"our port":      func(q *Quote) { q.From.Port++; q.Packet = q.Packet[:wire.ControlOffset+wire.ControlHeaderLen+8] }, // and a truncated quote without the nonce
		"our address":   func(q *Quote) { q.From.IP[15]++ },
		"peer's port":   func(q *Quote) { q.To.Port++ },
		"peer":          func(q *Quote) { q.To.IP[15]++ },
		"short, port":   func(q *Quote) { q.From.Port++; q.Packet = nil },
		"short, peer":   func(q *Quote) { q.To.IP[15]++; q.Packet = nil },
		"short, local":  func(q *Quote) { q.From.IP[15]++; q.Packet = nil },
		"short, opcode": func(q *Quote) { q.Packet = q.Packet[:wire.ControlOffset+1]; q.Packet[wire.ControlOffset]++ },
	} {
		m := newMeeting(t, 1)
		q := m.quoteOf(m.asks())
		change(q)
		if m.eng[0].Unreachable(q, OutcomeHostUnreachable) || m.connected.times != 0 || m.ctr[0].State() != CtrConnecting {
			t.Errorf("%s: believed", name)
		}
	}
}

// Once the peer has sent anything for an attempt, no ICMP error ends it, however well it is forged.
func TestUnreachableIsIgnoredAfterAnAnswer(t *testing.T) {
	m := newMeeting(t, 1)
	var req []byte
	m.link[1].mangle = func(b []byte) bool {
		if req == nil {
			req = slices.Clone(b)
		}
		return true
	}
	m.connect().pass(lifetime.ThinkTime + time.Millisecond) // PEND
	q := m.quoteOf(req)
	ignored := func(when string) {
		t.Helper()
		for _, n := range []int{0, 48, len(req)} {
			cut := *q
			cut.Packet = req[:n]
			if m.eng[0].Unreachable(&cut, OutcomeRefused) {
				t.Errorf("%s: a quote of %d bytes is believed", when, n)
			}
		}
	}
	ignored("queued")
	m.get().runUntilIdle()
	ignored("requested")
	m.accept().runUntilIdle()
	ignored("accepted")
	m.complete().runUntilIdle()
	ignored("established")
	m.completed.must(t, OutcomeSuccess)
	m.must(m.ctr[0].Disconnect(m.got.finish))
	m.must(m.ctr[1].Disconnect(m.got.finish))
	m.runUntilIdle()
	ignored("over")
	if len(m.eng[0].directory.asking) != 0 {
		t.Errorf("%d requests wait for an answer", len(m.eng[0].directory.asking))
	}
	// The passive side sent no REQ.
	q.From, q.To = q.To, q.From
	q.To.Port = m.eng[1].cfg.UDPPort
	if m.eng[1].Unreachable(q, OutcomeRefused) {
		t.Error("the passive side believed it")
	}
}

// Requests that wait for an answer are forgotten however they end.
func TestAskingIsForgotten(t *testing.T) {
	for name, end := range map[string]func(m *meeting){
		"cancel":   func(m *meeting) { m.ctr[0].Cancel() },
		"close":    func(m *meeting) { m.ctr[0].Close() },
		"release":  func(m *meeting) { m.qp[0].Release() },
		"silence":  func(m *meeting) { m.pass(10 * time.Second) },
		"shutdown": func(m *meeting) { m.eng[0].Shutdown() },
		"answer":   func(m *meeting) { m.link[1].mangle = nil; m.get().pass(time.Second); m.accept().runUntilIdle() },
	} {
		m := newMeeting(t, 1)
		m.asks()
		if n := len(m.eng[0].directory.asking); n != 1 {
			t.Fatalf("%d requests wait for an answer", n)
		}
		if end(m); len(m.eng[0].directory.asking) != 0 {
			t.Errorf("%s: the request is remembered", name)
		}
	}
}

// A complete quote of a REQ is recognized by its nonce: a router may report an earlier REQ after the attempt has changed its port.
func TestUnreachableFromThePortBefore(t *testing.T) {
	m := newMeeting(t, 1)
	before := m.quoteOf(m.asks())
	m.pass(300 * time.Millisecond)
	if m.quoteOf(nil).From.Port == before.From.Port {
		t.Fatal("the port did not change")
	}
	if !m.eng[0].Unreachable(before, OutcomeRefused) {
		t.Error("not believed")
	}
	m.connected.must(t, OutcomeRefused)
}

// An attempt keeps the paths of its earlier REQs, because ICMP errors about them arrive there, until it ends or the peer accepts
// (PROTOCOL §7.7).
func TestEarlierPathsOfARequest(t *testing.T) {
	for name, end := range map[string]func(m *meeting){
		"cancel":  func(m *meeting) { m.ctr[0].Cancel(); m.pass(10 * time.Second) },
		"close":   func(m *meeting) { m.ctr[0].Close(); m.pass(10 * time.Second) },
		"release": func(m *meeting) { m.qp[0].Release(); m.pass(10 * time.Second) },
		"silence": func(m *meeting) { m.pass(10 * time.Second) },
		"answer":  func(m *meeting) { m.link[1].mangle = nil; m.get().pass(time.Second); m.accept().runUntilIdle() },
	} {
		m := newMeeting(t, 1)
		used := func() int { return len(m.link[0].paths) - len(m.link[0].free) }
		before := used()
		m.asks()
		m.pass(4 * time.Second)
		changes := int(m.eng[0].Stats().PortsChanged)
		if n := used() - before; changes < 3 || n != changes+1 {
			t.Errorf("%s: %d paths after %d changes of the port", name, n, changes)
		}
		if end(m); used()-before > 1 {
			t.Errorf("%s: %d paths are left", name, used()-before)
		}
	}
}

// A REQ has no blocks, because its receive limit is in the body (PROTOCOL §5). An ICMP error also ends an attempt whose receives
// were posted before Connect, because the ids in the quote are at their usual offset.
func TestRequestWithReceivesPostedBefore(t *testing.T) {
	m := newMeeting(t, 1)
	m.receive(0, 0, 10)
	var req []byte
	m.link[1].mangle = func(b []byte) bool {
		req = slices.Clone(b)
		return false
	}
	m.connect().runUntilIdle()
	if h := wire.BaseHeader(req[:wire.BaseHeaderLen]); h.Flags() != 0 || opcode(req) != wire.CtlREQ {
		t.Errorf("a packet with flags %#x where a REQ belongs", h.Flags())
	}
	if !m.eng[0].Unreachable(m.quoteOf(req), OutcomeHostUnreachable) {
		t.Error("the quote is not believed")
	}
	m.connected.must(t, OutcomeHostUnreachable)
}

// Handshake messages have their receive limits in the body and no REPORT block, which the receiver would ignore (PROTOCOL §3.6).
func TestHandshakeHasNoReports(t *testing.T) {
	p := newMeeting(t, 1)
	seen := map[wire.Opcode]int{}
	for side := range 2 {
		p.receive(side, 0, 10)
		p.link[side].mangle = func(b []byte) bool {
			if h := wire.BaseHeader(b[:wire.BaseHeaderLen]); h.Control() && opcode(b) >= wire.CtlREQ && opcode(b) <= wire.CtlRTU {
				seen[opcode(b)]++
				if h.Flags()&wire.FlagReport != 0 {
					t.Errorf("%v has a REPORT block", opcode(b))
				}
			}
			return true
		}
	}
	slow := lifetime.ThinkTime + time.Millisecond
	p.get().connect().pass(slow)
	p.accept().pass(slow)
	p.complete().runUntilIdle()
	if len(seen) != 5 {
		t.Errorf("messages of the handshake: %v, want REQ, PEND, REP, REPACK and RTU", seen)
	}
	for side := range 2 {
		p.post(1-side, p.send(1-side, 10))
		p.runUntilIdle()
		p.outcomes(1-side, OutcomeSuccess)
		p.outcomes(side, OutcomeSuccess)
	}
}
