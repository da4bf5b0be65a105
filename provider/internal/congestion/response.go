package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// What makes the delay long is not always our queue: others that do not yield fill the buffer (TCP CUBIC), or jitter keeps the order of packets and so
// holds nearly all of them back. No least round trip tells that from a queue; what tells is that the delay does not follow the window. It stays as it was in
// drains, when all that yield are gone, or while next to nothing is in flight. Then it is ignored until drains make it short again.
const (
	// longDrains in a row that leave a long queue mean that something keeps it there that does not yield.
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
	// tells is how many that smaller windows drained say as much as one of these. Those of many flows do not show in their queue, so that these count
	// where a packet was lost within lately: who fills a buffer loses some of everybody's, and flows that yield do not fill it.
	tells  = 4
	lately = 20 * time.Second
	// shortDrains in a row in which it went mean that the delay counts again.
	shortDrains = 7
	// A queue stays while it is more than 1/stayPart of what it was, and is gone at 1/gonePart.
	stayPart, gonePart = 2, 4
)

// A window of smallWindow packets or less has no drain that shows. So two other things count, for a time that doubles with each that was in vain up to smallMost.
// For smallTime and smallSamples round trips the queue was smallQueue times as long as is aimed at in the mean, and each round trip told
// nothing of the next: a queue that flows share is about as long one round trip later, and jitter is not. And for floorTime the window was the least there is: it is made
// smallWindow packets then until a drain shows that the queue goes.
const (
	smallWindow = 2
	smallTime   = 4 * minDrainGap
	floorTime   = 32 * minDrainGap
	smallMost   = 10 * time.Second
	smallRounds = 64
	smallQueue  = 2
	meanPart    = 16 // the weight of a sample in that mean
	// Of round trips that tell nothing of the next, the mean step from one to the next is 4/3 (evenly spread) to 1.41 (normal) times the mean distance from the
	// mean; of a queue it is 0.8 to 1.1. 13/10 tells them apart in 256.
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
		r.small, r.first, r.steps = b.Now, r.mean, steps{n: -meanPart} // until the mean is that of such a window
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
