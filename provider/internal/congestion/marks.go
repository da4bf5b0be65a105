package congestion

import "github.com/ndxdp/ndxdp/internal/clock"

// share is 1 in the fractions of markSignal.
const share = 1 << 16

// markSignal is DCTCP's (RFC 8257): the window shrinks by half of the share of packets that were marked. Only connections
// whose ends agreed to it (PROTOCOL §7.1) send packets that can be marked.
type markSignal struct {
	alpha     int // share of marked packets, in 1/share
	marked    int // in this round trip
	delivered int // bytes
	from      clock.Time
}

// markGain is g = 1/16 (RFC 8257 §4.2).
const markGain = 16

func (m *markSignal) heard(s *State, b *batch) {
	if b.marks == 0 && m.marked == 0 && m.alpha < markGain {
		return
	}
	m.marked += b.marks
	m.delivered += b.delivered
	if b.marks > 0 {
		s.threshold = min(s.threshold, s.window)
	}
	if b.Now.Sub(m.from) <= b.round || m.delivered == 0 {
		return
	}
	part := min(m.marked*s.packet*share/m.delivered, share)
	m.alpha += part/markGain - m.alpha/markGain
	if m.marked > 0 {
		s.window = max(s.window-s.window*m.alpha/(2*share), s.leastWindow())
	}
	m.marked, m.delivered, m.from = 0, 0, b.Now
}
