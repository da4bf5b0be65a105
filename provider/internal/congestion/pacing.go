package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// pacing serves a window below one packet by time: one packet every RTT/window (Swift). Larger ones need no timer: packets
// leave when acknowledgements come, at most a burst at a time.
type pacing struct {
	gap    time.Duration // from one packet to the next when the window is less than a packet; else zero
	sendAt clock.Time    // no packet before, when gap is not zero
}

func (p *pacing) waits(now clock.Time) bool { return p.gap != 0 && p.sendAt > now }

// PacedUntil is when pacing lets a packet go, and zero when it does now.
func (s *State) PacedUntil(now clock.Time) clock.Time {
	if !s.pacing.waits(now) {
		return 0
	}
	return s.pacing.sendAt
}

// Left notes that a packet goes out now.
func (s *State) Left(now clock.Time) {
	if p := &s.pacing; p.gap != 0 {
		p.sendAt = now.Add(p.gap)
	}
}
