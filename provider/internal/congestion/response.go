package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A long delay is not always this flow's queue. Flows that do not yield (TCP CUBIC) may fill the buffer, or in-order jitter may
// delay nearly all packets. The least round trip does not distinguish these from a queue. But then the delay does not follow the
// window: it stays the same in drains, when all flows that yield are gone, and while almost nothing is in flight. The delay is then
// ignored until drains make it short again.
const (
	// longDrains is the number of successive drains with a long queue after which a flow that does not yield must be keeping the
	// queue.
	longDrains = 6
	// longQueue is a queue, in least round trips or shortQueue, that is longer than flows that yield build.
	longQueue  = 3
	shortQueue = 4 * minQueueing
	// manyLonger is how many times longer the queue of flows with windows below one packet may be.
	manyLonger = 4
	// pathDrains is a number of successive drains with equal round trips. After as many, this round trip counts as the round trip of the
	// empty path.
	pathDrains = 12
	// vainDrains is the number of successive drains without effect after which the queue is not this flow's, if windows had at
	// least tellingWindow packets. Flows that start one after another need a few drains to synchronize.
	vainDrains    = 8
	tellingWindow = 8
	// tells is the number of drains by smaller windows that count as one of these. Among many flows, the drain of one does not show
	// in the queue. So these drains count only after a recent loss: a flow that fills the buffer makes others lose packets, while
	// flows that yield do not fill it.
	tells  = 4
	lately = 20 * time.Second
	// shortDrains is the number of successive drains with an empty queue after which the delay counts again.
	shortDrains = 7
	// A queue has stayed if more than 1/stayPart of it is left, and is gone if at most 1/gonePart is left.
	stayPart, gonePart = 2, 4
)

// A window of smallWindow packets or less is too small for a visible drain. Two other signs then count, for a time that doubles
// with each vain attempt up to smallMost. First sign: for smallTime and smallSamples round trips, the mean queue was smallQueue
// times the target, and successive round trips were uncorrelated. A shared queue has about the same length one round trip later;
// jitter does not. Second sign: the window was minimal for floorTime. The window is then set to smallWindow packets until a drain
// shows that the queue goes away.
const (
	smallWindow = 2
	smallTime   = 4 * minDrainGap
	floorTime   = 32 * minDrainGap
	smallMost   = 10 * time.Second
	smallRounds = 64
	smallQueue  = 2
	meanPart    = 16 // a sample has the weight 1/meanPart in the mean
	// If successive round trips are uncorrelated, the mean step between them is 4/3 (uniform) to 1.41 (normal) times the mean
	// deviation. For a queue it is 0.8 to 1.1 times. 13/10 separates the two in 256 samples.
	smallSamples       = 256
	stepsNum, stepsDen = 13, 10
	// If a round trip takes slowRound or more, 256 of them take at least half a minute. The queue of flows there changes less
	// between round trips, so that 12/10 separates the two in slowSamples.
	slowRound   = 32 * time.Millisecond
	slowSamples = 64
	slowNum     = 12
)

// response tracks whether the delay follows the window.
type response struct {
	ignored bool // it does not, so loss bounds the window

	above           int           // successive drains with a long queue
	lowest, highest time.Duration // range of their round trips
	vain            int           // weighted number of drains without effect, after the last one with effect: tells for each, or 1 for each with a small window
	short           int           // successive drains that emptied the queue

	mean  time.Duration // mean round trip
	small clock.Time    // from when the window is small and the queue long; zero otherwise
	first time.Duration // mean at this time
	steps steps         // round trips after this time
	floor clock.Time    // from when the window is minimal; zero otherwise
	tried bool          // the window is at least smallWindow packets, as a test
	wait  time.Duration // least duration of both signs, if longer than smallTime and floorTime
}

// sample handles a round trip. base is the path's round trip.
func (r *response) sample(s *State, b *batch, base, target time.Duration) {
	r.mean += (b.delay - r.mean) / meanPart
	r.stuck(s, b)
	aimed := target - base
	if r.ignored || s.window > smallWindow*s.packet || r.mean-base < smallQueue*aimed {
		r.small = 0
		return
	}
	if r.small == 0 || r.mean*stayPart < r.first {
		r.small, r.first, r.steps = b.Now, r.mean, steps{n: -meanPart} // skip samples until the mean is that of a small window
	}
	r.steps.add(b.delay, r.mean)
	needed := smallSamples
	if b.round >= slowRound {
		needed = slowSamples
	}
	if r.steps.n < needed || b.Now.Sub(r.small) <= max(r.wait, smallTime) {
		return
	}
	if !r.steps.unrelated() {
		if r.steps.n >= smallSamples {
			r.small = 0
		}
		return
	}
	r.ignored = true
	r.unbounded(s)
	r.wait = min(max(2*r.wait, smallTime), smallMost)
	s.window = tellingWindow * s.packet
	s.threshold = max(s.threshold, s.window)
}

// steps measures whether successive round trips are correlated.
type steps struct {
	n        int
	last     time.Duration
	sum, off time.Duration // sum of steps between round trips, sum of deviations from the mean
}

// add handles a round trip.
func (p *steps) add(rtt, mean time.Duration) {
	if p.n++; p.n <= 0 {
		p.last = rtt
		return
	}
	p.sum += (rtt - p.last).Abs()
	p.off += (rtt - mean).Abs()
	p.last = rtt
}

// unrelated reports whether successive round trips are uncorrelated.
func (p *steps) unrelated() bool {
	if p.n < smallSamples {
		return p.sum*stepsDen >= p.off*slowNum
	}
	return p.sum*stepsDen >= p.off*stepsNum
}

// stuck enlarges a window that was minimal for a long time.
func (r *response) stuck(s *State, b *batch) {
	switch {
	case r.ignored || r.tried || s.window > s.leastWindow():
		r.floor = 0
	case r.floor == 0:
		r.floor = b.Now
	case b.Now.Sub(r.floor) > max(r.wait, floorTime, smallRounds*b.round):
		r.tried = true
		r.wait = min(max(2*r.wait, smallTime), smallMost)
		s.window = smallWindow * s.packet
	}
}

// least returns the least window that the delay may set.
func (r *response) least(s *State) int {
	if r.tried {
		return smallWindow * s.packet
	}
	return s.leastWindow()
}

// drained handles the result of a drain.
func (r *response) drained(s *State, b *batch, target time.Duration) {
	d := &s.drain
	if d.least == 0 {
		return
	}
	if d.seen > 0 {
		r.compare(s, b, d.before, d.sum/d.seen-s.Base())
	}
	if d.least <= target {
		r.above = 0
		return
	}
	if r.above == 0 {
		r.lowest, r.highest = d.least, d.least
	}
	r.lowest, r.highest = min(r.lowest, d.least), max(r.highest, d.least)
	r.above++
	long := longQueue * max(shortQueue, s.Base())
	steady, manys := r.highest-r.lowest <= minQueueing/2, long
	if s.window < s.packet {
		manys *= manyLonger
	}
	switch {
	case r.above == pathDrains:
		r.above = 0
		if steady && r.lowest > s.Base()+b.Own+long && (r.ignored || s.window < s.packet) {
			s.path.restart(b.Now, r.lowest) // round trips without the flow's queue are equal, so this is the path's round trip
			r.ignored = false
		}
	case r.above >= longDrains && r.lowest > s.Base()+b.Own+manys:
		r.ignored = true
	}
}

// compare handles the queue before a drain and the mean queue during the drain.
func (r *response) compare(s *State, b *batch, before, in time.Duration) {
	switch {
	case in*gonePart <= max(before, minQueueing):
		r.vain, r.short, r.tried = 0, r.short+1, false
	case in*stayPart > before:
		r.short = 0
		switch {
		case r.tried || s.window >= tellingWindow*s.packet:
			r.vain += tells
		case s.losses.at > 0 && b.Now.Sub(s.losses.at) < lately:
			r.vain++
		}
	default:
		r.vain, r.short = 0, 0
	}
	if r.short >= shortDrains {
		r.ignored = false
	}
	if r.vain >= vainDrains*tells {
		r.vain, r.tried = 0, false
		r.ignored = true
		r.unbounded(s)
	}
}

// unbounded lets a window that never lost a packet grow in slow start, because it is unknown where loss will bound it.
func (r *response) unbounded(s *State) {
	if s.losses.at == 0 {
		s.threshold = MaxWindow
	}
}

// searching reports whether drains leave a long queue whose cause is not known yet.
func (r *response) searching(base time.Duration) bool {
	return r.above > 0 && !r.ignored && r.lowest > base+longQueue*max(shortQueue, base)
}
