package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// share is 1 in the fractions of markSignal.
const share = 1 << 16

// markSignal reacts to ECN marks. In a data center, whose routers mark from a short queue on, it follows DCTCP (RFC 8257): the
// window shrinks by half of the share of marked packets. Elsewhere a mark means a long queue, as loss does (RFC 3168), and DCTCP
// would starve other flows. Only connections whose ends agreed on ECN (PROTOCOL §7.1) send packets that can be marked.
type markSignal struct {
	alpha     int        // share of marked packets, in 1/share
	marked    int        // marked packets of this round trip
	delivered int        // bytes delivered in this round trip
	from      clock.Time // beginning of this round trip, or time of the last decrease
	arrived   uint8      // arrived packets of the present sample
	told      uint8      // marks that the peer reported during the present sample
	nearlyAll bool       // at least nearlySample packets of the previous sample were marked
}

// If nearlySample or more of markSample successive packets were marked, the path marks nearly all packets, and the window does not
// grow. This matters to a requester of READs: its window grows with answers, which the marks of its requests do not slow down. On a
// path that marks everything, the window would otherwise never shrink to one packet.
const markSample, nearlySample = 8, 7

// arrive counts an arrived packet.
func (m *markSignal) arrive() {
	if m.arrived++; m.arrived == markSample {
		m.nearlyAll = m.told >= nearlySample
		m.arrived, m.told = 0, 0
	}
}

// tell counts marks that the peer reported.
func (m *markSignal) tell(n int) { m.told = uint8(min(int(m.told)+n, markSample)) }

// markGain is g = 1/16 (RFC 8257 §4.2).
const markGain = 16

// markKeep/20 of the window remain after marks outside data centers, because queues that mark are shorter than queues that drop
// (RFC 8511).
const markKeep = 17

// classic handles marks like loss: once for all packets of a round trip.
func (m *markSignal) classic(s *State, b *batch) {
	if b.marks == 0 || b.Now.Sub(m.from) <= b.round {
		return
	}
	m.from = b.Now
	was := s.window
	s.window = max(was*markKeep/20, s.leastWindow())
	s.threshold = min(s.threshold, s.window)
	s.delay.speed, s.before = 0, 0
	if s.delay.filtered <= s.delay.target {
		s.cubic.cut(was, s.window, s.packet, b.Now)
	}
}

// Alone reports whether the window for the network holds at most one packet.
func (s *State) Alone() bool { return s.window <= s.packet }

// Unmark discards all marks, because the path does not mark correctly. The window becomes the window of a new connection, unless it
// is larger.
func (s *State) Unmark(smoothed time.Duration) {
	s.marks, s.batch.marks, s.cubic.from, s.before = markSignal{}, 0, 0, 0
	s.window, s.threshold = max(s.window, s.firstWindow()), MaxWindow
	s.apply(smoothed)
}

// dctcp handles marks of a data center.
func (m *markSignal) dctcp(s *State, b *batch) {
	if b.marks == 0 && m.marked == 0 && m.alpha < markGain {
		return
	}
	m.marked = min(m.marked+b.marks, MaxWindow) // bounded, because the peer may report any number
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
