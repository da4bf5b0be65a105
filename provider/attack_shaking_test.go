package provider

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/shake"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks on TLS handshakes, by hosts on the path and by strangers.

// bodyOf returns the body of a control message in plain, as a part of the packet.
func bodyOf(b []byte) []byte { return b[wire.ControlOffset+wire.ControlHeaderLen:] }

// Attack 13. What travels in plain cannot be changed on the way: the attempt fails, and no connection has less than its ends offered.
func TestAttackDowngradeInREQ(t *testing.T) {
	for what, change := range map[string]func(body []byte){
		"the feature SECURE":   func(b []byte) { b[23] &^= byte(wire.FeatureSecure) },
		"the feature ECT":      func(b []byte) { b[23] ^= byte(wire.FeatureECT) },
		"an unknown feature":   func(b []byte) { b[20] ^= 0x80 },
		"the lowest version":   func(b []byte) { b[24]-- },
		"the highest version":  func(b []byte) { b[25]++ },
		"the window":           func(b []byte) { b[33] ^= 1 },
		"the largest packet":   func(b []byte) { binary.BigEndian.PutUint32(b[36:], wire.MinPacket) },
		"the UDP port":         func(b []byte) { b[27] ^= 1 },
		"the nonce":            func(b []byte) { b[15] ^= 1 },
		"the caller's ND port": func(b []byte) { b[17] ^= 1 },
		"the connection id":    func(b []byte) { b[7] ^= 1 },
	} {
		for _, allowPlain := range []bool{false, true} {
			m := newShakeMeeting(t, usual, usual)
			m.l.allowPlain = allowPlain
			m.arrivals(1, func(b []byte, _ wire.BaseHeader, msg wire.Control) bool {
				if msg.Opcode == wire.CtlREQ {
					change(bodyOf(b))
					seal(b)
				}
				return true
			})
			m.connect().pass(12 * time.Second)
			if m.connected.times != 1 || m.connected.outcome == OutcomeSuccess || m.ctr[0].TLS() != nil {
				t.Errorf("%s changed, plain allowed %v: Connect ended %d times with %v", what, allowPlain, m.connected.times, m.connected.outcome)
			}
			for _, c := range m.l.queue {
				if c.identity.sealed != 0 {
					t.Errorf("%s changed: the listener has a request", what)
				}
			}
		}
	}
}

// Attack 13. The same for the answer.
func TestAttackDowngradeInSHAKE(t *testing.T) {
	for what, change := range map[string]func(body []byte){
		"the connection id": func(b []byte) { b[7] ^= 1 },
		"the UDP port":      func(b []byte) { b[17] ^= 1 },
		"the nonce":         func(b []byte) { b[15] ^= 1 },
		"the level":         func(b []byte) { b[18] = 2 },
		"a byte":            func(b []byte) { b[len(b)-1] ^= 1 },
		"what arrived":      func(b []byte) { b[20] = 0xff },
	} {
		m := newShakeMeeting(t, usual, usual)
		m.arrivals(0, func(b []byte, _ wire.BaseHeader, msg wire.Control) bool {
			if msg.Opcode == wire.CtlSHAKE {
				change(bodyOf(b))
				seal(b)
			}
			return true
		})
		m.get().connect().pass(12 * time.Second)
		if m.connected.times != 1 || m.connected.outcome == OutcomeSuccess {
			t.Errorf("%s changed: Connect ended %d times with %v", what, m.connected.times, m.connected.outcome)
		}
	}
}

// Attack 13. A peer that says in the handshake other facts than in plain gets alert 47, on either side.
func TestAttackOtherParameters(t *testing.T) {
	for at := range wire.ParamsLen {
		for side := range 2 {
			plans := [2]shakertest.Plan{usual, usual}
			plans[side].Params = func(b []byte) []byte {
				b = bytes.Clone(b)
				b[at] ^= 1
				return b
			}
			m := newShakeMeeting(t, plans[0], plans[1])
			m.get().connect().pass(time.Second)
			unsaid := side == 1 && at >= 34 && at != 42 && at != 43 // a SHAKE does not say these, the sealed REP does
			if unsaid {
				continue
			}
			if f := m.ctr[0].TLSFailure(); f == nil || f.Alert != alertIllegalParameter {
				t.Fatalf("byte %d of side %d: %+v, Connect ended with %v", at, side, f, m.connected)
			}
			m.failed([2]Outcome{OutcomeRefused, OutcomeAborted}[side])
		}
	}
}

// Attack 13. No answer in plain makes a connection without encryption: neither PEND nor REP.
func TestAttackAnswersInPlain(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	m.link[1].mangle = func([]byte) bool { return false }
	m.get().connect().runUntilIdle()
	c := m.onlyConn(0)
	h := wire.Hello{
		ConnID: 77, Nonce: c.identity.nonce, SrcPort: pairPort, DstPort: c.identity.localND, UDPPort: wire.DefaultPort,
		MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 1 << 20,
	}
	for op, body := range map[wire.Opcode][]byte{wire.CtlREP: h.Append(nil), wire.CtlPEND: nil, wire.CtlPing: make([]byte, wire.PingLen)} {
		f := &forged{from: c.identity.remote}
		f.control(op, body)
		f.fields.ConnID, f.fields.Number = c.identity.id, 5
		m.inject(0, f)
		m.runUntilIdle()
		if c.phase != phaseShaking || c.identity.peerID != 0 {
			t.Errorf("%v: the connection is %v", op, c.phase)
		}
	}
	if s := m.eng[0].Stats(); s.Drops[wire.DropPlain] != 3 {
		t.Errorf("%v", s.DropsByName())
	}
	m.link[1].mangle = nil
	m.pass(time.Second)
	m.got.must(t, OutcomeSuccess)
}

// onlyConn returns the only connection of a side.
func (p *pair) onlyConn(side int) (found *conn) {
	p.tb.Helper()
	for c := range p.eng[side].group.conns.all {
		if found != nil {
			p.tb.Fatal("there are several connections")
		}
		found = c
	}
	if found == nil {
		p.tb.Fatal("there is no connection")
	}
	return found
}

// Attack 15. RETRY, REJ, RST and ICMP errors may end an attempt only before its first packet of generation 0 opened, on both sides.
func TestAttackMessagesInPlainAfterTheKeys(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	quote := m.asks()
	m.link[1].mangle = nil
	var late []func()
	m.sides[1].Later = func(f func()) { late = append(late, f) } // the server's last step
	m.get().pass(100 * time.Millisecond)
	for len(late) > 0 && late[0] != nil {
		late[0]()
		late = late[1:]
		if m.runUntilIdle(); m.onlyConn(1).end.shaking.opened {
			break
		}
	}
	if !m.onlyConn(0).end.shaking.opened || !m.onlyConn(1).end.shaking.opened {
		t.Fatal("no packet of generation 0 opened")
	}
	q := m.quoteOf(quote)
	if m.eng[0].Unreachable(q, OutcomeHostUnreachable) {
		t.Error("an ICMP error is believed")
	}
	for side := range 2 {
		c := m.onlyConn(side)
		before := c.phase
		reject := wire.Reject{Reason: wire.RejectConsumer}
		for op, body := range map[wire.Opcode][]byte{
			wire.CtlREJ: reject.Append(nil), wire.CtlRETRY: make([]byte, wire.CookieLen), wire.CtlDREQ: nil, wire.CtlPing: make([]byte, wire.PingLen),
			wire.CtlSHAKE: (&wire.Shake{ConnID: c.identity.peerID, Nonce: c.identity.nonce, UDPPort: 1}).Append(nil),
		} {
			f := &forged{from: c.identity.remote}
			f.control(op, body)
			f.fields.ConnID, f.fields.Number = c.identity.id, heard(c)+1
			drops := m.eng[side].Stats().Drops[wire.DropPlain]
			m.inject(side, f)
			m.runUntilIdle()
			if c.phase != before || m.eng[side].Stats().Drops[wire.DropPlain] != drops+1 {
				t.Errorf("side %d, %v in plain: the connection is %v", side, op, c.phase)
			}
		}
		reset := &forged{from: c.identity.remote}
		reset.control(wire.CtlRST, (&wire.Reset{ConnID: c.identity.peerID}).Append(nil))
		m.inject(side, reset)
		m.runUntilIdle()
		if c.phase != before {
			t.Errorf("side %d: an RST without a token: the connection is %v", side, c.phase)
		}
	}
	for _, f := range late {
		f()
	}
	m.pass(time.Second)
	m.got.must(t, OutcomeSuccess)
}

// Attack 15. A forged RETRY before the answer costs a repeated REQ, and the attempt goes on.
func TestAttackForgedRETRY(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	m.asks()
	c := m.onlyConn(0)
	for i := range 20 {
		f := &forged{from: c.identity.remote}
		f.control(wire.CtlRETRY, bytes.Repeat([]byte{byte(i + 1)}, wire.CookieLen))
		f.fields.ConnID, f.fields.Number = c.identity.id, 5
		m.inject(0, f)
		m.runUntilIdle()
	}
	m.link[1].mangle = nil
	m.get().pass(2 * time.Second)
	m.got.must(t, OutcomeSuccess)
}

// Attack 18. A ClientHello or a chain of certificates that is too long fails with an alert, whose sender names the bounds.
func TestAttackOversizedMessages(t *testing.T) {
	long, chain := shakertest.Plan{Hello: shake.MaxHello + 1}, shakertest.Plan{Hello: 100, Rest: shake.MaxLevel + 1}
	for what, c := range map[string]struct {
		client, server shakertest.Plan
		outcome        Outcome
	}{
		"ClientHello":           {long, usual, OutcomeAborted},
		"certificate of server": {usual, chain, OutcomeRefused},
		"certificate of client": {chain, usual, OutcomeAborted},
	} {
		m := newShakeMeeting(t, c.client, c.server)
		m.get().connect().pass(time.Second)
		m.failed(c.outcome)
		if f := m.ctr[0].TLSFailure(); f == nil || f.Alert != alertInternalError {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// Attacks 19 and 20. A handshake that goes on without an end, because the peer or a function of the application never answers, ends after
// shakeTime on both sides, and other connections go on meanwhile.
func TestAttackSlowHandshakes(t *testing.T) {
	for side := range 2 {
		m := newShakeMeeting(t, usual, usual)
		steps := 0
		m.sides[side].Later = func(f func()) {
			if steps++; steps < 3-side {
				f()
			}
		}
		m.get().connect().pass(shakeTime - 10*time.Millisecond)
		if m.connected.times != 0 || m.onlyConn(0).phase == phaseLingering {
			t.Fatalf("side %d: the attempt ended early: %v", side, m.connected)
		}
		m.pass(3 * time.Second)
		m.failed(OutcomeIOTimeout)
		for i := range 2 {
			if begun, closed := m.sides[i].Counts(); begun != closed || m.eng[i].Stats().HandshakesFailed == 0 && m.eng[i].Stats().Handshakes == 0 {
				t.Errorf("side %d: %d of %d handshakes were closed", i, closed, begun)
			}
		}
		m.ctr[1].Close()
		m.l.shaker = nil
		m.l.Close()
		m.tls = [2]*shakertest.Side{}
		m.pair.connected = 16 // another listener
		m.pair.connect().works()
	}
}

// Attack 22. A peer that has keys of generation 0, and is not verified, changes nothing with any message but SHAKE and REJ: the listener
// hears of no request.
func TestAttackMessagesOfGeneration0(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	var late []func()
	m.sides[1].Later = func(f func()) { late = append(late, f) }
	m.get().connect().pass(50 * time.Millisecond)
	late[0]()
	m.pass(50 * time.Millisecond)
	c, peer := m.onlyConn(0), m.onlyConn(1)
	if !peer.end.shaking.opened || peer.end.shaking.done {
		t.Fatal("the handshake is at another point")
	}
	h := *offer(c, wire.CtlREQ)
	for op, body := range map[wire.Opcode][]byte{
		wire.CtlREQ: h.Append(nil), wire.CtlREP: h.Append(nil), wire.CtlRTU: make([]byte, 4), wire.CtlDREQ: nil, wire.CtlPing: make([]byte, wire.PingLen),
	} {
		total := 0
		if op == wire.CtlREQ {
			total = wire.MinPacket - wire.TagLen
		}
		before := m.eng[1].Stats().Drops[wire.DropState]
		c.withTraffic(func(t *traffic) {
			m.eng[0].out.BeginSealed(wire.MinPacket, &c.end.shaking.early.Out)
			copy(m.eng[0].out.PutControl(op, 0, len(body), total), body)
			t.sealControl()
		})
		m.eng[0].flush()
		m.runUntilIdle()
		if got := m.eng[1].Stats().Drops[wire.DropState]; got != before+1 || peer.phase != phaseShaking || m.got.times != 0 {
			t.Errorf("%v of generation 0: the connection is %v, %d requests, %d drops", op, peer.phase, m.got.times, got-before)
		}
	}
	for len(late) > 0 {
		late[0]()
		late = late[1:]
		m.pass(50 * time.Millisecond)
	}
	m.got.must(t, OutcomeSuccess)
}

// Attack 29. At most two packets of generation 1 wait for their key, and only small ones. Others are dropped and counted.
func TestAttackPacketsWithoutAKey(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	var late []func()
	m.sides[1].Later = func(f func()) { late = append(late, f) }
	m.connect().pass(50 * time.Millisecond)
	c := m.onlyConn(1)
	for i := range 50 {
		f := &forged{from: c.identity.remote}
		f.bare()
		f.fields.ConnID, f.fields.Number, f.fields.Flags = c.identity.id, uint64(1000+i), wire.FlagSecure
		f.body = make([]byte, []int{100, 1376}[i%2])
		f.spoil = func(b []byte) []byte { wire.PutGeneration(b, 1); return b }
		m.inject(1, f)
		m.runUntilIdle()
	}
	sh := c.end.shaking
	if len(sh.kept) != maxKept || m.eng[1].Stats().Drops[wire.DropGeneration] != 50-maxKept {
		t.Errorf("%d packets wait, %v", len(sh.kept), m.eng[1].Stats().Drops[wire.DropGeneration])
	}
	for len(late) > 0 {
		f := late[0]
		late = late[1:]
		f()
		m.pass(50 * time.Millisecond)
	}
	m.get().pass(time.Second)
	m.got.must(t, OutcomeSuccess)
	if d := m.eng[1].Stats().Drops[wire.DropTag]; d != maxKept {
		t.Errorf("%d forged packets were found out", d)
	}
}
