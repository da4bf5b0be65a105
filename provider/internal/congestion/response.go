package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A long delay is not always this flow's queue. Flows that do not yield (TCP CUBIC) may fill the buffer, or jitter that keeps the order may
// delay nearly all packets. The least round trip does not distinguish these from a queue, but the delay then does not follow the window. It
// stays the same in drains, when all flows that yield are gone, and while almost nothing is in flight. The delay is then ignored until
// drains make it short again.
const (
	// longDrains drains in a row that leave a long queue mean that something that does not yield keeps the queue.
	longDrains = 6
	// longQueue, in least round trips or shortQueue, is what many flows that yield do not come to.
	longQueue  = 3
	shortQueue = 4 * minQueueing
	// manyLonger is how much longer the queue of flows with windows of less than a packet may be.
	manyLonger = 4
	// pathDrains in a row that show the same round trip mean that it is the path's.
	pathDrains = 12
	// vainDrains in a row in which the queue stayed mean that it is not ours, if windows were of tellingWindow packets at least. Flows that come one after
	// another need a few until they drain together.
	vainDrains    = 8
	tellingWindow = 8
	// tells is how many drains by smaller windows count as much as one of these. With many flows, a drain of one does not show in their
	// queue. So these drains count only if a packet was lost recently: a flow that fills a buffer makes others lose packets, too, and flows
	// that yield do not fill it.
	tells  = 4
	lately = 20 * time.Second
	// shortDrains in a row in which it went mean that the delay counts again.
	shortDrains = 7
	// A queue stays while it is more than 1/stayPart of what it was, and is gone at 1/gonePart.
	stayPart, gonePart = 2, 4
)

// A window of smallWindow packets or less is too small for a visible drain. So two other signs count, for a time that doubles with each
// vain attempt up to smallMost. First: for smallTime and smallSamples round trips the mean queue was smallQueue times the target, and each
// round trip said nothing of the next. A queue that flows share has about the same length one round trip later; jitter does not. Second:
// for floorTime the window was minimal. It is then set to smallWindow packets until a drain shows that the queue goes away.
const (
	smallWindow = 2
	smallTime   = 4 * minDrainGap
	floorTime   = 32 * minDrainGap
	smallMost   = 10 * time.Second
	smallRounds = 64
	smallQueue  = 2
	meanPart    = 16 // the weight of a sample in that mean
	// If round trips say nothing of the next one, the mean step between them is 4/3 (uniform) to 1.41 (normal) times the mean deviation.
	// For a queue it is 0.8 to 1.1 times. 13/10 separates them in 256 samples.
	smallSamples       = 256
	stepsNum, stepsDen = 13, 10
	// Where a round trip takes slowRound or more, 256 of them come in half a minute at best. The queue of flows there changes by less from one to the next,
	// so that 12/10 tells in slowSamples.
	slowRound   = 32 * time.Millisecond
	slowSamples = 64
	slowNum     = 12
)

// response is whether the delay follows the window.
type response struct {
	ignored bool // it does not: loss bounds the window

	above           int           // drains in a row that left a long queue
	lowest, highest time.Duration // round trips that they saw
	vain            int           // drains in which the queue stayed, since the last in which it did not: tells each, and 1 each where windows were small
	short           int           // drains in a row in which it went

	mean  time.Duration // of round trips
	small clock.Time    // since when the window is small and the queue long; zero when not
	first time.Duration // the mean then
	steps steps         // round trips since
	floor clock.Time    // since when the window is the least there is; zero when not
	tried bool          // the window is smallWindow packets at least, to find out
	wait  time.Duration // how long both may be, beyond smallTime and floorTime
}

// sample takes in a round trip, with what the path takes and what is aimed at.
func (r *response) sample(s *State, b *batch, base, target time.Duration) {
	r.mean += (b.delay - r.mean) / meanPart
	r.stuck(s, b)
	aimed := target - base
	if r.ignored || s.window > smallWindow*s.packet || r.mean-base < smallQueue*aimed {
		r.small = 0
		return
	}
	if r.small == 0 || r.mean*stayPart < r.first {
		r.small, r.first, r.steps = b.Now, r.mean, steps{n: -meanPart} // until the mean is that of a small window
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

// steps is whether round trips tell of the next.
type steps struct {
	n        int
	last     time.Duration
	sum, off time.Duration // of steps from one to the next, of distances from the mean
}

// add takes in a round trip.
func (p *steps) add(rtt, mean time.Duration) {
	if p.n++; p.n <= 0 {
		p.last = rtt
		return
	}
	p.sum += (rtt - p.last).Abs()
	p.off += (rtt - mean).Abs()
	p.last = rtt
}

// unrelated says that they do not.
func (p *steps) unrelated() bool {
	if p.n < smallSamples {
		return p.sum*stepsDen >= p.off*slowNum
	}
	return p.sum*stepsDen >= p.off*stepsNum
}

// stuck makes a window larger that is the least there is for long.
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

// least is what a window that the delay bounds is at least.
func (r *response) least(s *State) int {
	if r.tried {
		return smallWindow * s.packet
	}
	return s.leastWindow()
}

// drained takes in what a drain showed.
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
			s.path.restart(b.Now, r.lowest) // without the window the round trip is the same each time: that is the path
			r.ignored = false
		}
	case r.above >= longDrains && r.lowest > s.Base()+b.Own+manys:
		r.ignored = true
	}
}

// compare takes in the queue before a drain, and the mean in it.
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

// unbounded lets a window that never lost anything double from now on: nobody knows where loss will bound it.
func (r *response) unbounded(s *State) {
	if s.losses.at == 0 {
		s.threshold = MaxWindow
	}
}

// searching says that drains leave a long queue, and it is not known yet why.
func (r *response) searching(base time.Duration) bool {
	return r.above > 0 && !r.ignored && r.lowest > base+longQueue*max(shortQueue, base)
}
