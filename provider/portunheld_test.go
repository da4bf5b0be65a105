package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// unheld returns the quote in the ICMP error of side 1's kernel about a packet of side 0, after the process there has ended.
func (p *pair) unheld(packet []byte) *Quote {
	c := p.conn(0)
	return &Quote{Sender: c.identity.remote.IP, From: c.identity.local, To: wire.Endpoint{IP: c.identity.remote.IP, Port: c.identity.peerPort}, Packet: packet}
}

// kill makes side 1 receive and send nothing. It returns where the newest packet to side 1 is stored.
func (p *pair) kill() *[]byte {
	newest := new([]byte)
	p.link[1].mangle = func(b []byte) bool {
		*newest = slices.Clone(b)
		return false
	}
	p.link[0].mangle = func([]byte) bool { return false }
	return newest
}

// If the peer's kernel reports that no process holds the peer's port, and the peer does not answer one PING, the connection ends.
// This takes place when something is sent, or with the next keep-alive of an idle connection (PROTOCOL §7.7).
func TestPortUnheldEndsTheConnection(t *testing.T) {
	for name, send := range map[string]func(p *pair){
		"sending": func(p *pair) { p.post(0, p.write(0, 0, 100)); p.runUntilIdle() },
		"idle":    func(p *pair) { p.pass(p.eng[0].cfg.KeepAlive + 2*time.Second) }, // more than one PING was sent
	} {
		p := newPair(t, 1408).connect()
		p.post(0, p.write(0, 0, 100))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		newest := p.kill()
		send(p)
		if *newest == nil {
			t.Fatalf("%s: nothing was sent", name)
		}
		at := p.now
		*newest = (*newest)[:wire.BaseHeaderLen]
		if !p.eng[0].Unreachable(p.unheld(*newest), OutcomeRefused) {
			t.Fatalf("%s: not believed", name)
		}
		if !p.eng[0].Unreachable(p.unheld(*newest), OutcomeRefused) {
			t.Errorf("%s: the repeated error has no effect", name)
		}
		for p.ctr[0].State() == CtrEstablished && p.now.Sub(at) < time.Second {
			p.pass(time.Millisecond)
		}
		if took := p.now.Sub(at); p.ctr[0].State() != CtrLost || took > 2*lifetime.FirstRetry {
			t.Errorf("%s: the connector is %v after %v", name, p.ctr[0].State(), took)
		}
		if name == "sending" {
			p.outcomes(0, OutcomeCanceled)
		}
		if p.ctr[0].Cause() != CausePeerGone || p.eng[0].Stats().PortsUnheld != 1 {
			t.Errorf("%s: cause %v, %d ports unheld", name, p.ctr[0].Cause(), p.eng[0].Stats().PortsUnheld)
		}
	}
}

// A peer that answers the PING keeps its connection, whatever ICMP errors report of its port.
func TestPortUnheldOfAPeerThatLives(t *testing.T) {
	p := newPair(t, 1408).connect()
	for range 10 {
		newest := p.kill()
		p.post(0, p.write(0, 0, 100))
		p.runUntilIdle()
		p.link[0].mangle, p.link[1].mangle = nil, nil
		if !p.eng[0].Unreachable(p.unheld(*newest), OutcomeRefused) {
			t.Fatal("not believed")
		}
		p.pass(time.Second)
		p.outcomes(0, OutcomeSuccess)
	}
	if p.ctr[0].State() != CtrEstablished {
		t.Errorf("the connector is %v", p.ctr[0].State())
	}
}

// An error that differs in any field from the genuine error about a recent packet changes nothing.
func TestPortUnheldNeedsARecentPacket(t *testing.T) {
	p := newPair(t, 1408).connect()
	var acknowledged []byte
	p.link[1].mangle = func(b []byte) bool {
		acknowledged = slices.Clone(b)
		return true
	}
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	newest := p.kill()
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	unsent := slices.Clone(*newest)
	last := wire.BaseHeader(unsent[:wire.BaseHeaderLen])
	wire.PutBaseHeader(unsent, &wire.BaseFields{ConnID: last.ConnID(), Number: uint64(last.Number()) + 1000})
	for name, change := range map[string]func(q *Quote) Outcome{
		"acknowledged": func(q *Quote) Outcome { q.Packet = acknowledged; return OutcomeRefused },
		"never sent":   func(q *Quote) Outcome { q.Packet = unsent; return OutcomeRefused },
		"id":           func(q *Quote) Outcome { q.Packet[8] ^= 1; return OutcomeRefused },
		"version":      func(q *Quote) Outcome { q.Packet[0] ^= 0x10; return OutcomeRefused },
		"cut off":      func(q *Quote) Outcome { q.Packet = q.Packet[:wire.BaseHeaderLen-1]; return OutcomeRefused },
		"a router":     func(q *Quote) Outcome { q.Sender[15]++; return OutcomeRefused },
		"somebody":     func(q *Quote) Outcome { q.Sender = [16]byte{}; return OutcomeRefused },
		"peer's port":  func(q *Quote) Outcome { q.To.Port++; return OutcomeRefused },
		"peer":         func(q *Quote) Outcome { q.To.IP[15]++; q.Sender = q.To.IP; return OutcomeRefused },
		"our address":  func(q *Quote) Outcome { q.From.IP[15]++; return OutcomeRefused },
		"no way":       func(*Quote) Outcome { return OutcomeHostUnreachable },
	} {
		q := p.unheld(slices.Clone(*newest))
		if o := change(q); p.eng[0].Unreachable(q, o) {
			t.Errorf("%s: believed", name)
		}
	}
	if p.eng[0].Stats().PortsUnheld != 0 {
		t.Error("the peer was asked")
	}
	p.link[0].mangle, p.link[1].mangle = nil, nil
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
}
