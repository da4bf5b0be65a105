package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// share is 1 in the fractions of markSignal.
const share = 1 << 16

// markSignal decides what marks of routers mean. In a data center, whose routers mark from a short queue on, it is DCTCP's (RFC 8257): the window shrinks
// by half of the share of packets that were marked. Elsewhere a mark says that a queue is long, as loss would (RFC 3168), and DCTCP would drive all
// others out. Only connections whose ends agreed to it (PROTOCOL §7.1) send packets that can be marked.
type markSignal struct {
	alpha     int        // share of marked packets, in 1/share
	marked    int        // in this round trip
	delivered int        // bytes
	from      clock.Time // when this round trip began, or when the window was reduced last
	arrived   uint8      // packets of the newest sample that arrived
	told      uint8      // marks that the peer told of meanwhile
	nearlyAll bool       // so many packets of the last sample were marked
}

// If nearlySample or more of markSample packets in a row were marked, the path marks nearly all packets, and the window does not grow. A
// requester of READs grows by answers, and the marks of its requests say nothing about these. On a path that marks everything, its window
// would otherwise never shrink to a packet.
const markSample, nearlySample = 8, 7

// arrive counts a packet that arrived.
func (m *markSignal) arrive() {
	if m.arrived++; m.arrived == markSample {
		m.nearlyAll = m.told >= nearlySample
		m.arrived, m.told = 0, 0
	}
}

// tell counts marks that the peer told of.
func (m *markSignal) tell(n int) { m.told = uint8(min(int(m.told)+n, markSample)) }

// markGain is g = 1/16 (RFC 8257 §4.2).
const markGain = 16

// markKeep twentieths of a window are kept after marks outside data centers: queues that mark are shorter than queues that drop (RFC 8511).
const markKeep = 17

// classic takes in marks as loss is taken in, once for all packets of a round trip.
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

// Alone says that the window for the network has room for one packet at the most.
func (s *State) Alone() bool { return s.window <= s.packet }

// Unmark takes in that all marks so far said nothing of queues: the window is one of which nothing is known.
func (s *State) Unmark(smoothed time.Duration) {
	s.marks, s.batch.marks, s.cubic.from, s.before = markSignal{}, 0, 0, 0
	s.window, s.threshold = max(s.window, s.firstWindow()), MaxWindow
	s.apply(smoothed)
}

// dctcp takes in marks of a data center.
func (m *markSignal) dctcp(s *State, b *batch) {
	if b.marks == 0 && m.marked == 0 && m.alpha < markGain {
		return
	}
	m.marked = min(m.marked+b.marks, MaxWindow) // the peer says how many: it may say anything
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
