package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// SENDs with an immediate, or with a token to invalidate.

func TestSendWithInvalidate(t *testing.T) {
	for _, n := range []uint32{0, 10, 5000} {
		p := newPair(t, 1408).connect()
		w := p.grant(4096, readWrite)
		p.receive(1, 8192, 5000)
		p.runUntilIdle()
		s := p.send(0, n)
		s.Flags, s.Token = FlagInvalidate|FlagSolicit, w.Token()
		p.post(0, s)
		p.runUntilIdle()
		r := p.outcomes(1, OutcomeSuccess)[0]
		if r.Invalidated != w.Token() || r.Bytes != n || r.HasImmediate || w.Bound() {
			t.Errorf("%d bytes: %+v", n, r)
		}
		p.outcomes(0, OutcomeSuccess)
		p.invalidate(w) // the window is used too late
		p.runUntilIdle()
		p.outcomes(1, OutcomeInvalidRequest)
	}
}

func TestSendWithImmediate(t *testing.T) {
	p := newPair(t, 1408).connect()
	for _, n := range []uint32{0, 10, 5000} {
		p.receive(1, 8192, 5000)
		p.receive(1, 8192, 5000)
		p.runUntilIdle()
		s := p.send(0, n)
		s.Flags, s.Immediate = FlagImmediate, 0xfeedbeef
		p.post(0, s)
		s = p.send(0, 8)
		s.Flags, s.Inline = FlagInline|FlagImmediate, []byte("in place")
		p.post(0, s)
		p.runUntilIdle()
		rs := p.outcomes(1, OutcomeSuccess, OutcomeSuccess)
		if !rs[0].HasImmediate || rs[0].Immediate != 0xfeedbeef || rs[0].Bytes != n || !rs[1].HasImmediate || rs[1].Immediate != 0 {
			t.Errorf("%+v", rs)
		}
		p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	}
}

// A failed SEND of these kinds is also found by its number.
func TestSpecialSendLongerThanTheReceive(t *testing.T) {
	for _, flags := range []PostFlags{FlagImmediate, FlagInvalidate} {
		p := newPair(t, 1408).connect()
		w := p.grant(4096, readWrite)
		p.receive(1, 8192, 10)
		p.runUntilIdle()
		s := p.send(0, 11)
		s.Flags, s.Token = flags, w.Token()
		p.post(0, p.write(0, 0, 1))
		p.post(0, s)
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess, OutcomeRemoteError)
		p.outcomes(1, OutcomeBufferOverflow)
	}
}

// A peer may not invalidate the tokens of regions, tokens of other queue pairs' windows, and unknown tokens.
func TestAttackInvalidation(t *testing.T) {
	for name, token := range map[string]func(p *pair) Token{
		"zero":   func(*pair) Token { return 0 },
		"region": func(p *pair) Token { return p.reg[1].Token() },
		"twice": func(p *pair) Token {
			w := p.grant(64, 0)
			p.invalidate(w)
			p.runUntilIdle()
			p.outcomes(1, OutcomeSuccess)
			return w.Token()
		},
		"guess": func(p *pair) Token { return p.grant(64, 0).Token() ^ 1 },
		"other queue pair": func(p *pair) Token {
			w := p.window(1)
			other := p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1]})
			return p.bindTo(other, w, p.reg[1].Base())
		},
	} {
		p := newPair(t, 1408).connect()
		s := p.send(0, 10)
		s.Flags, s.Token = FlagInvalidate, token(p)
		p.receive(1, 8192, 10)
		p.runUntilIdle()
		p.post(0, s)
		p.runUntilIdle()
		p.outcomes(0, OutcomeRemoteError)
		p.outcomes(1, OutcomeCanceled)
		if s := p.eng[1].Stats(); s.Drops[wire.DropToken] != 1 || p.ctr[1].State() != CtrLost {
			t.Errorf("%s: %v", name, p.ctr[1].State())
		}
		if name == "other queue pair" && p.mem[1].Windows(p.reg[1]) != 1 {
			t.Error("a window of another queue pair was invalidated")
		}
	}
}
