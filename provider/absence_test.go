package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
)

// A peer that is off its core again and again is asked in vain once, and not each time.
func TestPeerOffItsCoreIsAskedOnce(t *testing.T) {
	const away, times = 5 * time.Millisecond, 20
	p := newPair(t, 1408).connect()
	for range recovery.SettledAfter + 1 {
		p.post(0, p.write(0, 0, 64))
		p.pass(100 * time.Microsecond)
		p.outcomes(0, OutcomeSuccess)
	}
	before := p.eng[0].stats.Retransmits
	for range times {
		p.post(0, p.write(0, 0, 64))
		for range away / (100 * time.Microsecond) {
			p.now = p.now.Add(100 * time.Microsecond)
			p.eng[0].Run(p.now)
		}
		p.pass(time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
	}
	if n := p.eng[0].stats.Retransmits - before; n == 0 || n > times/4 {
		t.Errorf("%d packets were sent again to a peer that was off its core %d times", n, times)
	}
	p.loseFirst(0, 1, 1)
	p.post(0, p.write(0, 0, 64))
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess) // a loss is found all the same
}
