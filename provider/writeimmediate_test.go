package provider

import "testing"

// writeImmediate makes a Write of n bytes by side 0 that carries an immediate.
func (p *pair) writeImmediate(n uint32) *listed {
	w := p.write(0, 0, n)
	w.Context, w.Flags, w.Immediate = 77, FlagImmediate, 0xfeedbeef
	return w
}

// A Write with an immediate has one result, of a Write. It completes a receive of the peer with the immediate, after its bytes are placed.
func TestWriteWithImmediate(t *testing.T) {
	p := newPair(t, 1408).connect()
	for _, n := range []uint32{0, 10, 5000} {
		p.fill(0, 0, n, byte(n))
		p.receive(1, 8192, 10)
		p.runUntilIdle()
		p.post(0, p.writeImmediate(n))
		p.runUntilIdle()
		if r := p.outcomes(0, OutcomeSuccess)[0]; r.Kind != KindWrite || r.RequestContext != 77 {
			t.Errorf("%d bytes: the result of the Write is %+v", n, r)
		}
		if r := p.outcomes(1, OutcomeSuccess)[0]; !r.HasImmediate || r.Immediate != 0xfeedbeef || !r.Solicited || r.Bytes != 0 {
			t.Errorf("%d bytes: the result of the receive is %+v", n, r)
		}
		if !p.all(1, 0, n, byte(n)) {
			t.Errorf("%d bytes were not all placed before the result", n)
		}
	}
}

// Each of these Writes carries an immediate and its bytes inline, or has no result.
func TestWriteWithImmediateInlineAndSilent(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 8192, 10)
	p.runUntilIdle()
	w := p.writeImmediate(8)
	w.Flags, w.Inline = w.Flags|FlagInline|FlagSilentSuccess, []byte("in place")
	p.post(0, w)
	p.runUntilIdle()
	p.outcomes(0)
	p.outcomes(1, OutcomeSuccess)
	if got := string(p.reg[1].Bytes()[:8]); got != "in place" {
		t.Errorf("the peer has %q", got)
	}
}

// A Write with an immediate takes two slots of the queue, or none.
func TestWriteWithImmediateOnAFullQueue(t *testing.T) {
	p := newPair(t, 1408).connect()
	depth := int(p.qp[0].sq.depth)
	for range depth - 1 {
		r := p.write(0, 0, 1)
		r.Flags = FlagDefer
		p.post(0, r)
	}
	if _, o := p.writeImmediate(1).post(p.qp[0]); o != OutcomeNoMoreEntries || p.qp[0].Outstanding() != depth-1 {
		t.Fatalf("one free slot: %v, %d requests in the queue", o, p.qp[0].Outstanding())
	}
}

// A Write with an immediate fails once: with the outcome of its bytes, with the outcome of its immediate, or canceled.
func TestWriteWithImmediateFailsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *pair, w *listed)
		want   Outcome
	}{
		"wrong token": {func(_ *pair, w *listed) { w.Token ^= 1 }, OutcomeAccessViolation},
		"local memory gone": {func(p *pair, _ *listed) {
			if o := p.mem[0].Deregister(p.reg[0]); o != OutcomeSuccess {
				t.Fatal(o)
			}
		}, OutcomeAccessViolation},
		"flushed": {func(_ *pair, w *listed) { w.Flags |= FlagDefer }, OutcomeCanceled},
	} {
		p := newPair(t, 1408).connect()
		p.receive(1, 8192, 10)
		p.runUntilIdle()
		w := p.writeImmediate(10)
		c.change(p, w)
		p.post(0, w)
		if name == "flushed" {
			p.qp[0].Flush()
		}
		p.runUntilIdle()
		if r := p.outcomes(0, c.want)[0]; r.Kind != KindWrite || r.RequestContext != 77 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// If the bytes arrive and the peer never posts a receive for the immediate, the Write fails as a Send does.
func TestWriteWithImmediateWithoutAReceive(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.writeImmediate(10))
	p.pass(2 * noReceive)
	if r := p.outcomes(0, OutcomeIOTimeout)[0]; r.Kind != KindWrite {
		t.Errorf("%+v", r)
	}
}
