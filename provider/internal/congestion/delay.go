package congestion

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The delay controller is after Swift (SIGCOMM 2020): it adds a packet per round trip while the round trip is below a
// target, and takes away in proportion to how far it is above, at most half and at most once per round trip.
const (
	// minQueueing is the least delay in queues that is aimed at. A guess for machines that share cores that held: in
	// simulation it gives full use of a link of 1 Gb/s with 2 to 16 flows.
	minQueueing = 50 * time.Microsecond
	// betaNum/betaDen is the strength of the decrease (Swift: 0.8); maxDecrease halves.
	betaNum, betaDen = 4, 5
	// scaleRange bounds what flow scaling adds to the aimed delay, in quarters of it: small windows are the sign of many
	// flows, which need a longer queue to share. Swift allows five times as much as the aimed delay; with once, 16 flows on a
	// path of 35 packets have a Jain index of 0.998 and a median delay of 1.6 targets, which may not be above 2.
	scaleRange = 4
	// maxOver bounds one sample, in targets: a peer that was off its core for milliseconds is no queue, and shows once; a
	// queue shows in every sample.
	maxOver = 4
	// lossShare: with the delay below the target, loss halves the window only if it took more than an eighth of the packets.
	// Less is what links do by themselves.
	lossShare = 8
)

// delaySignal is the filtered round trip and what it is compared with.
type delaySignal struct {
	filtered  time.Duration
	target    time.Duration
	scale     int // of the window scaledFor: a root takes longer than all else here
	scaledFor int
	reducedAt clock.Time
	// At the smallest window: round trips in a row that were above the target all the same, and the least of them.
	stuck    int
	steady   int // of them, within minQueueing of the least
	leastNow time.Duration
}

// stuckRounds is how many reductions in a row the smallest window may see, without one round trip below the target between,
// before the least round trip ever counts as a thing of the past: a packet in 16 round trips makes no queue, so the path itself
// takes longer than it did, if half of them are alike. Others' queue is not: it comes and goes by packets. 32 flows that each have
// the smallest window keep 2 ms of queue in front of a link of 200 Mb/s; not asked whether they are alike, they took it for the path, and some
// finished in a quarter of the others' time. With 32, 8 flows that share a path
// of less than a packet each took each other for the path (Jain index 0.4; 0.99 with 128). After a change from 0.2 to 2 ms it is found out
// within a second in simulation; before, the connection kept the smallest window for ever.
const stuckRounds = 128

// floored notes a reduction that found the window at its smallest, and returns the least round trip of a path that must have
// become longer; else zero.
func (d *delaySignal) floored(delay time.Duration) time.Duration {
	switch {
	case d.stuck == 0 || delay < d.leastNow-minQueueing:
		d.leastNow, d.steady = delay, 0
	case delay < d.leastNow:
		d.leastNow = delay
	}
	if delay <= d.leastNow+minQueueing {
		d.steady++
	}
	if d.stuck++; d.stuck < stuckRounds {
		return 0
	}
	d.stuck = 0
	if d.steady < stuckRounds/2 {
		return 0
	}
	return d.leastNow
}

// Delay is the Control that keeps the round trip near a target and reacts to loss and marks.
type Delay struct{}

func (*Delay) start(s *State) { s.window = InitialWindow * Unit }

// target is the round trip aimed at for a window.
func target(base, own time.Duration, scale int) time.Duration {
	q := max(minQueueing, base)
	return base + own + q + q*time.Duration(scale)/(4*Unit)
}

// scale is the part flow scaling adds, in 1/Unit: scaleRange/sqrt(window in packets), at most scaleRange.
func scale(window int) int {
	if window <= Unit {
		return scaleRange * Unit
	}
	return scaleRange * Unit * 256 / isqrt(window)
}

// isqrt is the integer square root, from above (Newton).
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

// acked implements Control.
func (*Delay) acked(s *State, b *batch) (longer time.Duration) {
	d := &s.delay
	if b.delay > 0 {
		d.sample(b, s.window)
	}
	if s.window > MinWindow || b.delay > 0 && b.delay <= d.target {
		d.stuck = 0
	}
	s.marks.acked(s, b)
	switch {
	case d.filtered > d.target && d.target > 0:
		s.threshold = min(s.threshold, s.window) // slow start is over
		if b.Now.Sub(d.reducedAt) > b.round && (s.limited(b) || s.window > InitialWindow*Unit) {
			d.reducedAt = b.Now
			if s.window == MinWindow && b.delay > d.target {
				longer = d.floored(b.delay)
			}
			over := min((d.filtered-d.target)*betaNum*Unit/(d.filtered*betaDen), Unit/2)
			s.window = max(s.window-int(over)*s.window/Unit, MinWindow)
			s.before = 0
		}
	case b.packets > 0 && b.marks == 0 && s.limited(b):
		s.grow(b.packets)
	}
	return longer
}

// sample filters a round trip. The weight is about one in the number of batches per round trip, and 1/8 at the least: with
// small windows a slower filter would still show a queue that is long gone, and the window be halved for it again.
func (d *delaySignal) sample(b *batch, window int) {
	if d.scaledFor != window {
		d.scale, d.scaledFor = scale(window), window
	}
	d.target = target(b.Base, b.Own, d.scale)
	rtt := min(b.delay, maxOver*d.target)
	if d.filtered == 0 {
		d.filtered = rtt
		return
	}
	d.filtered += (rtt - d.filtered) >> min(bits.Len(uint(window/Unit)), 3)
}

// lost implements Control. Above the target loss is congestion and halves the window. Below it the window only gives up
// what was lost, unless that is a good part: with 1 % of random loss, halving left 60 % of a link unused.
func (*Delay) lost(s *State, lost, delivered int) {
	d := &s.delay
	part := Unit / 2
	if d.filtered <= d.target && lost*lossShare <= lost+delivered {
		part = lost * Unit / (lost + delivered)
	}
	s.window = max(s.window-part*s.window/Unit, Unit)
	s.threshold = min(s.threshold, s.window)
}

// timedOut implements Control: one packet, and slow start up to half of what was.
func (*Delay) timedOut(s *State) {
	if s.window > Unit {
		s.before = s.window
		s.threshold = max(s.window/2, 2*Unit)
	}
	s.window = Unit
}
