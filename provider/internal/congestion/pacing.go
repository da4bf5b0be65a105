package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// pacing sends one packet every RTT/window if the window is below one packet (Swift). Larger windows need no timer:
// acknowledgements clock packets out, at most a burst at a time.
type pacing struct {
	gap    time.Duration // time between two packets if the window is below one packet; otherwise zero
	sendAt clock.Time    // earliest time of the next packet if gap is not zero
}

func (p *pacing) waits(now clock.Time) bool { return p.gap != 0 && p.sendAt > now }

// PacedUntil returns the earliest time of the next packet, or zero if it may leave now.
func (s *State) PacedUntil(now clock.Time) clock.Time {
	if !s.pacing.waits(now) {
		return 0
	}
	return s.pacing.sendAt
}

// Left records that a packet leaves now.
func (s *State) Left(now clock.Time) {
	if p := &s.pacing; p.gap != 0 {
		p.sendAt = now.Add(p.gap)
	}
}
