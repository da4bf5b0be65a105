package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// latencyRig makes requests in which each stage takes a known time.
type latencyRig struct {
	*pair
	window int // packets in flight; 1 makes the sampled request wait for the one before it
	spent  Latency
}

// request posts one request that triggers a sample and one that is sampled, and advances the time of each stage.
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
	r.eng[1].Run(r.now) // receives the packet
	r.now = r.now.Add(r.spent.Hold)
	r.acknowledge()
	r.now = r.now.Add(r.spent.Wire - r.spent.Wire/2)
	r.eng[0].Run(r.now)
	r.now = r.now.Add(r.spent.Completion)
	r.results(0)
	r.pass(2 * trace.SampleGap)
}

// acknowledge makes the peer receive the packets and acknowledge them.
func (r *latencyRig) acknowledge() {
	r.eng[1].Run(r.now)
	r.conn(1).traffic.received.ackNow()
	r.eng[1].Run(r.now)
}

// TestLatencyIsSplit makes each stage of a request slow on its own, and then all of them. The delay of a stage appears in that
// stage's latency alone.
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
			for range 60 { // removes the samples of the handshake
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

// TestSamplesAreRare: the poster reads the clock at most once in trace.SampleGap, whatever an application does.
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

// TestSamplesOutlastEndings: if a sampled request ends because its connection becomes idle or is flushed, later requests are still
// sampled.
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
			p.post(0, p.write(0, 0, 64)) // triggered before the rest and never read
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
