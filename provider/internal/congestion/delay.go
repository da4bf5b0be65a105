package congestion

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The delay controller follows Swift (SIGCOMM 2020). It adds a packet per round trip while the round trip is below a target. Above the
// target it shrinks the window in proportion, by at most half and at most once per round trip.
const (
	// minQueueing is the least queueing delay in the target. The value allows for machines with shared cores. In simulation it
	// fully uses a link of 1 Gb/s with 2 to 16 flows.
	minQueueing = 50 * time.Microsecond
	// betaNum/betaDen is the strength of a decrease (Swift: 0.8). One decrease at most halves the window.
	betaNum, betaDen = 4, 5
	// scaleRange bounds flow scaling: the part of the target delay that it adds, in 1/scaleUnit. Small windows indicate many flows,
	// which need a longer queue to share. Swift allows five times the target delay. With 5/8, 16 flows on a path of 35 packets have
	// a Jain index of 0.99 and a median queue of 1.6 least round trips. 8 flows on a path of two packets have a queue of 1.9 times
	// 50 µs; the limit is 2.
	scaleRange = 5
	scaleUnit  = 8
	// maxOver bounds one sample, in targets. A descheduled peer causes one long sample; a queue shows in every sample.
	maxOver = 4
	// patience is the number of round trips below the target after which growth steps double. maxStep bounds a step, as a part of
	// the window. Without doubling, a long path would take minutes to fill.
	patience = 6
	// steadyWindow is the least window in packets for which the minimum filter is used.
	steadyWindow = 4
	maxStep      = 16
)

// delaySignal is the filtered round trip and its target.
type delaySignal struct {
	filtered  time.Duration
	now, last time.Duration // least delay of this quarter of a round trip, and of the previous quarter
	quarterAt clock.Time    // beginning of this quarter
	target    time.Duration
	scale     int // flow scaling for window scaledFor, cached because the square root is expensive
	scaledFor int
	reducedAt clock.Time
	fresh     bool // a sample arrived after the last decrease

	stepAt clock.Time // beginning of the newest round trip of growth
	calm   int        // successive round trips of growth
	speed  int        // additional packets per round trip, beyond one
}

// Delay is the Control that keeps the round trip near a target and reacts to loss and marks.
type Delay struct {
	DataCenter bool // routers mark packets as in data centers (DCTCP)
}

func (*Delay) start(s *State) { s.window = s.firstWindow() }

// target returns the target round trip.
func target(base, own time.Duration, scale int) time.Duration {
	q := max(minQueueing, base)
	return base + own + q + q*time.Duration(scale)/(scaleUnit*share)
}

// scale returns the flow scaling of a window, in 1/share: scaleRange/sqrt(window in packets), at most scaleRange.
func scale(window, packet int) int {
	if window <= packet {
		return scaleRange * share
	}
	return scaleRange * share * 256 / isqrt(window/packet<<16+window%packet<<16/packet)
}

// isqrt returns the integer square root, from above (Newton).
func isqrt(v int) int {
	x := 1 << ((bits.Len(uint(v)) + 1) / 2)
	for {
		y := (x + v/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// heard implements Control.
func (c *Delay) heard(s *State, b *batch) {
	d := &s.delay
	if b.delay > 0 {
		d.sample(s, b)
		s.response.sample(s, b, s.Base(), d.target)
		s.losses.note(b, s.queue(d.filtered))
	}
	s.losses.react(s, b)
	if c.DataCenter {
		s.marks.dctcp(s, b)
	} else {
		s.marks.classic(s, b)
	}
	rounds := drainRounds
	if s.response.searching(s.Base()) {
		rounds = searchRounds
	}
	if s.drain.step(s, b, rounds) {
		s.response.drained(s, b, d.target)
	}
	switch {
	case s.drain.active():
	case d.filtered > d.target && d.target > 0 && !s.response.ignored:
		s.threshold = min(s.threshold, s.window) // end of slow start
		d.calm, d.speed = 0, 0
		if (d.fresh || s.held <= absent) && b.Now.Sub(d.reducedAt) > b.round && (s.limited(b) || s.window > s.firstWindow()) {
			d.reducedAt, d.fresh = b.Now, false
			over := min((d.filtered-d.target)*betaNum*share/(d.filtered*betaDen), share/2)
			s.window = max(s.window-int(int64(over)*int64(s.window)/share), s.response.least(s))
			s.threshold = s.window
			s.before, s.cubic.from = 0, 0
		}
	case b.delivered > 0 && b.marks == 0 && !s.marks.nearlyAll && s.limited(b) && b.Now >= s.losses.holdUntil:
		if s.cubic.from > 0 && s.window >= s.threshold {
			s.window = min(s.cubic.grow(s.window, b.delivered, s.packet, b.Now, b.round), MaxWindow)
			return
		}
		d.quicken(s, b)
		s.grow(b.delivered, 1+d.speed)
	}
}

// quicken makes growth steps larger while the delay stays below the target.
func (d *delaySignal) quicken(s *State, b *batch) {
	if b.Now.Sub(d.stepAt) < b.round || s.window < s.threshold {
		return
	}
	d.stepAt = b.Now
	if d.calm++; d.calm > patience && !s.response.ignored {
		d.speed = min(2*d.speed+1, s.window/s.packet/maxStep)
	}
}

// sample filters round trips. It uses the least one of the last quarter to half of a round trip, because longer ones are mostly
// jitter. Small windows and slow start give too few samples, so it then uses a weighted mean. The weight is about one in the number
// of batches per round trip, and at least 1/8. A slower filter would still show a queue that is gone, and the window would be
// halved again.
func (d *delaySignal) sample(s *State, b *batch) {
	if d.scaledFor != s.window {
		d.scale, d.scaledFor = scale(s.window, s.packet), s.window
	}
	d.target, d.fresh = target(s.Base(), b.Own, d.scale), true
	rtt := min(b.delay, maxOver*d.target)
	if b.Now.Sub(d.quarterAt) > b.round/4 {
		d.last, d.now, d.quarterAt = d.now, rtt, b.Now
	}
	d.now = min(d.now, rtt)
	if d.last == 0 || d.filtered == 0 {
		d.filtered = rtt
		return
	}
	if s.window >= max(steadyWindow*s.packet, s.threshold) {
		d.filtered = min(d.now, d.last)
		return
	}
	d.filtered += (rtt - d.filtered) >> min(bits.Len(uint(s.window/s.packet)), 3)
}

// timedOut implements Control. The window becomes one packet, and slow start goes up to half of the previous window.
func (*Delay) timedOut(s *State) {
	if s.window > s.packet {
		s.before = s.window
		s.threshold = max(s.window/2, 2*s.packet)
	}
	s.window = s.packet
}
