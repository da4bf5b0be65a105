package congestion

import "github.com/ndxdp/ndxdp/internal/clock"

// markSignal is DCTCP's (RFC 8257): the window shrinks by half of the share of packets that were marked. Only connections
// whose ends agreed to it (PROTOCOL §7.1) send packets that can be marked.
type markSignal struct {
	alpha     int // share of marked packets, in 1/Unit
	marked    int // in this round trip
	delivered int
	from      clock.Time
}

// markGain is g = 1/16 (RFC 8257 §4.2).
const markGain = 16

func (m *markSignal) acked(s *State, b *batch) {
	if b.marks == 0 && m.marked == 0 && m.alpha < markGain {
		return
	}
	m.marked += b.marks
	m.delivered += b.packets
	if b.marks > 0 {
		s.threshold = min(s.threshold, s.window)
	}
	if b.Now.Sub(m.from) <= b.round || m.delivered == 0 {
		return
	}
	share := min(m.marked*Unit/m.delivered, Unit)
	m.alpha += share/markGain - m.alpha/markGain
	if m.marked > 0 {
		s.window = max(s.window-s.window*m.alpha/(2*Unit), MinWindow)
	}
	m.marked, m.delivered, m.from = 0, 0, b.Now
}
