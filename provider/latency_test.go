package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// TestLatencyIsSplit runs requests through known delays: 5 µs before the engine looks, 20 µs on the way, 30 µs at the peer,
// and 40 µs until the result is fetched.
func TestLatencyIsSplit(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.eng[0].clock = func() clock.Time { return p.now }
	p.pass(10 * time.Millisecond)
	for range 50 {
		p.post(0, p.write(0, 0, 64)) // asks for a sample; itself it may be none
		p.pass(2 * time.Millisecond)
		p.results(0)
		p.post(0, p.write(0, 0, 64))
		p.now = p.now.Add(5 * time.Microsecond)
		p.eng[0].Run(p.now)
		p.now = p.now.Add(10 * time.Microsecond)
		p.eng[1].Run(p.now) // takes the packet
		p.now = p.now.Add(30 * time.Microsecond)
		p.conn(1).ackNow()
		p.eng[1].Run(p.now)
		p.now = p.now.Add(10 * time.Microsecond)
		p.eng[0].Run(p.now)
		p.now = p.now.Add(40 * time.Microsecond)
		p.results(0)
		p.pass(2 * time.Millisecond)
	}
	got := p.info(0).Latency
	near := func(what string, d, want time.Duration) {
		if d < want-2*time.Microsecond || d > want+2*time.Microsecond {
			t.Errorf("%s: %v, want about %v (%+v)", what, d, want, got)
		}
	}
	near("queueing", got.Queueing, 5*time.Microsecond)
	near("wire", got.Wire, 20*time.Microsecond)
	near("hold", got.Hold, 30*time.Microsecond)
	near("completion", got.Completion, 40*time.Microsecond)
}

// TestSamplesAreRare: whatever an application does, its poster reads the clock once in sampleGap at the most.
func TestSamplesAreRare(t *testing.T) {
	p := newPair(t, 1408).connect()
	reads := 0
	p.eng[0].clock = func() clock.Time { reads++; return p.now }
	began := p.now
	for range 2000 {
		p.post(0, p.write(0, 0, 64))
		p.turn()
		p.turn()
		p.results(0)
	}
	if most := 2*int(p.now.Sub(began)/sampleGap) + 2; reads == 0 || reads > most {
		t.Errorf("%d clock reads in %v", reads, p.now.Sub(began))
	}
}

// TestSamplesOutlastEndings: a request that is watched may come to rest, or be flushed, with its connection; afterwards samples
// go on.
func TestSamplesOutlastEndings(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.eng[0].clock = func() clock.Time { return p.now }
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
		p.resting()
	}
	p.link[1].mangle = func([]byte) bool { return false }
	for range 2 {
		p.post(0, p.write(0, 0, 64))
		p.pass(2 * time.Millisecond)
	}
	p.eng[0].Flush(p.qp[0])
	p.settle()
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled)
	p.ctr[0].Close()
	p.pass(time.Minute)
	if n := len(p.infos(0)); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
