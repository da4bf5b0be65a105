package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// latencyRig makes requests of which each part takes a known time.
type latencyRig struct {
	*pair
	window int // packets in flight; 1 makes the request that is watched wait for the one before it
	spent  Latency
}

// request posts one request that asks for a sample and one that is it, and lets the time of each part pass.
func (r *latencyRig) request() {
	r.post(0, r.write(0, 0, 64))
	r.eng[0].Run(r.now)
	r.post(0, r.write(0, 0, 64))
	if r.window == 1 {
		r.eng[0].Run(r.now)
		r.now = r.now.Add(r.spent.Queueing)
		r.acknowledge()
	} else {
		r.now = r.now.Add(r.spent.Queueing)
	}
	r.eng[0].Run(r.now)
	r.now = r.now.Add(r.spent.Wire / 2)
	r.eng[1].Run(r.now) // takes the packet
	r.now = r.now.Add(r.spent.Hold)
	r.acknowledge()
	r.now = r.now.Add(r.spent.Wire - r.spent.Wire/2)
	r.eng[0].Run(r.now)
	r.now = r.now.Add(r.spent.Completion)
	r.results(0)
	r.pass(2 * trace.SampleGap)
}

// acknowledge makes the peer take what it was sent and say so.
func (r *latencyRig) acknowledge() {
	r.eng[1].Run(r.now)
	r.conn(1).ackNow()
	r.eng[1].Run(r.now)
}

// TestLatencyIsSplit makes each part of a request slow on its own, and then all of them: each shows as itself, and in no other
// part.
func TestLatencyIsSplit(t *testing.T) {
	const slow, rest, open = 50 * time.Microsecond, 4 * time.Microsecond, FixedPackets
	for _, c := range []struct {
		name   string
		window int
		spent  Latency
	}{
		{"nothing", open, Latency{Wire: rest}},
		{"queueing by a full window", 1, Latency{Queueing: slow, Wire: rest}},
		{"queueing by an engine that comes late", open, Latency{Queueing: slow, Wire: rest}},
		{"wire", open, Latency{Wire: slow}},
		{"remote hold", open, Latency{Wire: rest, Hold: slow}},
		{"completion by a late poll", open, Latency{Wire: rest, Completion: slow}},
		{"all", 1, Latency{Queueing: slow / 2, Wire: slow, Hold: 2 * slow, Completion: 3 * slow}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, 1408, 1, Config{Control: ControlFixed, FixedWindow: c.window})
			r := &latencyRig{p.connect(), c.window, c.spent}
			r.eng[0].out.Clock = func() clock.Time { return r.now }
			r.pass(10 * time.Millisecond)
			for range 60 { // forgets what the handshake left
				r.request()
			}
			got := r.info(0).Latency
			near := func(what string, d, want time.Duration) {
				if d < want-time.Microsecond || d > want+time.Microsecond {
					t.Errorf("%s: %v, want about %v", what, d, want)
				}
			}
			near("queueing", got.Queueing, c.spent.Queueing)
			near("wire", got.Wire, c.spent.Wire)
			near("hold", got.Hold, c.spent.Hold)
			near("completion", got.Completion, c.spent.Completion)
		})
	}
}

// TestSamplesAreRare: whatever an application does, its poster reads the clock once in trace.SampleGap at the most.
func TestSamplesAreRare(t *testing.T) {
	p := newPair(t, 1408).connect()
	reads := 0
	p.eng[0].out.Clock = func() clock.Time { reads++; return p.now }
	began := p.now
	for range 2000 {
		p.post(0, p.write(0, 0, 64))
		p.turn()
		p.turn()
		p.results(0)
	}
	if most := 2*int(p.now.Sub(began)/trace.SampleGap) + 2; reads == 0 || reads > most {
		t.Errorf("%d clock reads in %v", reads, p.now.Sub(began))
	}
}

// TestSamplesOutlastEndings: a request that is watched may become idle, or be flushed, with its connection; afterwards samples
// go on.
func TestSamplesOutlastEndings(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.eng[0].out.Clock = func() clock.Time { return p.now }
	for round := range 3 {
		for range 10 {
			p.post(0, p.write(0, 0, 64))
			p.pass(2 * time.Millisecond)
			p.results(0)
		}
		if l := p.info(0).Latency; l.Wire == 0 || l.Queueing == 0 {
			t.Errorf("round %d: no sample: %+v", round, l)
		}
		if round == 1 {
			p.post(0, p.write(0, 0, 64)) // asked for before the rest and never looked at
			p.pass(2 * time.Millisecond)
			p.results(0)
		}
		p.makeIdle()
	}
	p.link[1].mangle = func([]byte) bool { return false }
	for range 2 {
		p.post(0, p.write(0, 0, 64))
		p.pass(2 * time.Millisecond)
	}
	p.qp[0].Flush()
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled)
	p.ctr[0].Close()
	p.pass(time.Minute)
	if n := len(p.infos(0)); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
