package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// dropped returns how many packets side's engine dropped, for any reason.
func (p *pair) dropped(side int) (n uint64) {
	for _, d := range p.eng[side].Stats().Drops {
		n += d
	}
	return n
}

// Useless packets for a connection that has ended are counted, also if they are answered.
func TestPacketsOfOverConnectionsAreCounted(t *testing.T) {
	for name, late := range map[string]func(p *pair) *forged{
		"RST": func(p *pair) *forged {
			f := p.forge(1)
			m := wire.Reset{ConnID: p.conn(0).identity.id, Token: p.conn(1).identity.peerToken}
			f.control(wire.CtlRST, m.Append(nil))
			f.fields.ConnID = 0
			return f
		},
		"REQ": func(p *pair) *forged {
			return stranger(p.conn(1).identity.remote.IP, p.conn(0).identity.id, 5, nil, nil)
		},
		"RTU":  func(p *pair) *forged { return lateControl(p, wire.CtlRTU, (&wire.RTU{}).Append(nil)) },
		"PONG": func(p *pair) *forged { return lateControl(p, wire.CtlPong, make([]byte, wire.NonceLen)) },
		"ACK": func(p *pair) *forged {
			f := p.forge(1)
			f.alone(p.acks(-1, 0))
			return f
		},
		"Write": func(p *pair) *forged { return p.forge(1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect()
			f := late(p)
			c := p.conn(1)
			p.ctr[1].Close()
			if c.phase != phaseLingering {
				t.Fatalf("%v", c.phase)
			}
			before, state := p.dropped(1), p.eng[1].Stats().Drops[wire.DropState]
			p.inject(1, f)
			p.eng[1].Run(p.now)
			if p.dropped(1)-before != 1 || p.eng[1].Stats().Drops[wire.DropState]-state != 1 {
				t.Errorf("%d counted: %v", p.dropped(1)-before, p.eng[1].Stats().Drops)
			}
		})
	}
}

func lateControl(p *pair, op wire.Opcode, body []byte) *forged {
	f := p.forge(1)
	f.control(op, body)
	return f
}

// If a connection ends while packets wait behind a gap, these packets are counted as dropped.
func TestPacketsBehindAGapAreCountedAtTheEnd(t *testing.T) {
	p := newPair(t, 1408).connect()
	pieces := p.writeOf(1, make([]byte, 3000)).cut(1200, true)
	for _, f := range pieces {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	if p.dropped(1) != 0 || p.conn(1).traffic.received.spaces[0].gaps.Len() != len(pieces) {
		t.Fatal("they do not wait")
	}
	p.ctr[1].Close()
	if n := p.eng[1].Stats().Drops[wire.DropState]; n != uint64(len(pieces)) {
		t.Errorf("%d of %d are counted", n, len(pieces))
	}
}

// If the local memory of a READ is gone, the packets of its answer are counted as dropped.
func TestAnswersWithoutMemoryAreCounted(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.read(0, 100))
	p.eng[0].Run(p.now)
	p.eng[1].Run(p.now)
	p.mem[0].Deregister(p.reg[0])
	p.eng[0].Run(p.now)
	if n := p.eng[0].Stats().Drops[wire.DropToken]; n != 1 || p.dropped(0) != 1 {
		t.Errorf("%v", p.eng[0].Stats().Drops)
	}
	p.outcomes(0, OutcomeAccessViolation)
}
