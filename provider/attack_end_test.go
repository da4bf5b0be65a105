package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks that end an encrypted connection, or keep an engine from sending, without a key or with the keys of a peer.

// Attack 12. An ICMP error about a recent packet ends no encrypted connection, although the peer is silent for a while: ids and numbers of
// packets are visible, so anybody on the path can write the error.
func TestAttackPortUnheldOnEncryptedConnection(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	for range 3 {
		newest := p.kill()
		p.post(0, p.write(0, 0, 100))
		p.runUntilIdle()
		if p.eng[0].Unreachable(p.unheld(*newest), OutcomeRefused) {
			t.Error("the error is believed")
		}
		p.pass(time.Second)
		p.link[0].mangle, p.link[1].mangle = nil, nil
		p.pass(2 * time.Second)
		p.outcomes(0, OutcomeSuccess)
	}
	if s := p.eng[0].Stats(); p.ctr[0].State() != CtrEstablished || s.PortsUnheld != 0 {
		t.Errorf("the connector is %v, %d ports unheld", p.ctr[0].State(), s.PortsUnheld)
	}
}

// Attack 11. A peer that only asks for signs of life and acknowledges nothing uses up the key: the connection ends by TERM, for which packets
// are left, and the engine goes on for others.
func TestAttackAnswersUseUpTheKey(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	c, k := p.conn(1), &p.conn(1).end.keys.Out
	p.conn(0).end.keys.Limits = &secure.Standard // the peer's own key is not used up
	sent := p.eng[1].Stats().PacketsOut
	p.link[0].mangle = func([]byte) bool { return false }
	peer := p.conn(0).traffic
	ask := func(n int) {
		for range n {
			peer.sendPing()
			p.eng[0].flush()
			p.now += clockStep
			p.eng[1].Run(p.now)
			if p.eng[1].out.Starved() {
				t.Fatalf("the engine sends nothing, after %d packets of the key", p.eng[1].Stats().PacketsOut-sent)
			}
		}
	}
	ask(int(few.Most))
	if p.ctr[1].State() != CtrLost || !c.traffic.served.TermSent() || k.Spent(&few) {
		t.Errorf("the connector is %v after %d packets of the key", p.ctr[1].State(), p.eng[1].Stats().PacketsOut-sent)
	}
	p.now = p.now.Add(p.eng[1].cfg.DeadPeer)
	p.eng[1].Run(p.now)
	ask(2 * int(few.Most))
	if n := p.eng[1].Stats().PacketsOut - sent; n > few.Most {
		t.Errorf("%d packets of one key, at most %d are allowed", n, few.Most)
	}
}

// clockStep is the time between two packets of a peer that sends fast, without a timer in between.
const clockStep = 1000

// A connector that gives up before it knows its peer's id tells the peer, by an RST that the peer believes and that tells no token.
func TestShakingCanceledBeforeTheAnswer(t *testing.T) {
	m := newShakeMeeting(t, usual, usual)
	m.link[0].mangle = func([]byte) bool { return false }
	resets := 0
	m.arrivals(1, func(_ []byte, _ wire.BaseHeader, msg wire.Control) bool {
		var r wire.Reset
		if msg.Opcode == wire.CtlRST && wire.ParseReset(msg.Body, &r) == wire.DropNone {
			if resets++; r.Token != [wire.ResetTokenLen]byte{} {
				t.Error("the token is in plain")
			}
		}
		return true
	})
	m.get().connect().runUntilIdle()
	c := m.onlyConn(1)
	if c.phase != phaseShaking {
		t.Fatalf("the connection is %v", c.phase)
	}
	m.ctr[0].Close()
	m.runUntilIdle()
	if begun, closed := m.sides[1].Counts(); resets == 0 || c.phase != phaseLingering || begun != closed {
		t.Errorf("%d RSTs, the connection is %v, %d of %d handshakes are closed", resets, c.phase, closed, begun)
	}
	m.link[0].mangle, m.link[1].mangle = nil, nil
	m.over()
}

// A listener that closes ends the handshakes that were begun for it: no function of its configuration is called later, and its clients hear of
// it at once.
func TestListenerClosesInHandshake(t *testing.T) {
	for steps := range 2 {
		m := newShakeMeeting(t, usual, usual)
		var late []func()
		m.sides[1].Later = func(f func()) { late = append(late, f) }
		m.connect().runUntilIdle()
		for range steps {
			late[0]()
			late = late[1:]
			m.runUntilIdle()
		}
		if c := m.onlyConn(1); c.phase != phaseShaking || len(late) == 0 {
			t.Fatalf("after %d steps the connection is %v", steps, c.phase)
		}
		m.l.Close()
		m.runUntilIdle()
		if begun, closed := m.sides[1].Counts(); begun != 1 || closed != 1 {
			t.Errorf("after %d steps %d of %d handshakes are closed", steps, closed, begun)
		}
		m.failed(OutcomeRefused)
		m.over()
	}
}
