package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A connection that keeps a queue never sees its path without the queue. So from time to time it lets its own part of the queue drain. A
// flow whose least round trip contains the queue of earlier flows then sees a shorter one. BBR does the same every 10 s.
//
// One of many flows hardly changes the queue, so flows synchronize their drains as with BBR. The next drain is timed from the shortest
// round trip after the last drain. All flows of a queue see this round trip at the same time, whichever flow drained. Intervals are powers
// of two of one another.
const (
	drainRounds  = 32 // round trips from one drain to the next, at least
	minDrainGap  = 20 * time.Millisecond
	maxDrainGap  = 10 * time.Second
	drainLength  = 2 // round trips
	drainLead    = 2 // and so many after a drain begins, the queue is at its shortest
	drainShare   = 8 // the window becomes this part
	searchRounds = 8 // from one drain to the next while a queue stays long
	freshPart    = 8
	spareDrains  = 7
	enough       = 8 // packets of a window that need not stay small once the queue is empty
	behindShort  = 3 // round trips behind one without a queue that say whether it is
)

// drain is when the window is small to show the path, and what it showed.
type drain struct {
	limit  int           // of the window now; zero for none
	next   clock.Time    // when the next one begins, or this one goes on
	until  clock.Time    // when what this one bounded has been answered; zero for none under way
	least  time.Duration // the least round trip in this one; zero for no sample
	lowest time.Duration // the least since this one or the newest began; zero for no sample
	lowAt  clock.Time    // when that was
	base   time.Duration // the least round trip before it
	before time.Duration // the queue before it
	shown  clock.Time    // when packets come that left in it
	sum    time.Duration // of their round trips
	seen   time.Duration // number of these round trips
	ended  bool          // a round trip without a queue ended it
	calmAt clock.Time    // when what was lost in its bursts is known
	spare  int           // drains that need not be, when the path shows by itself
}

func (d *drain) bound(window int) int {
	if d.limit == 0 {
		return window
	}
	return min(window, d.limit)
}

// active says whether the round trips are not those of the full window, or the window is growing back.
func (d *drain) active() bool { return d.limit > 0 }

// step goes on in time. It reports true when a drain is over, with its result in least. The next one comes after so many round trips.
func (d *drain) step(s *State, b *batch, rounds int) (over bool) {
	if b.delay > 0 && (d.lowest == 0 || b.delay < d.lowest) {
		d.lowest, d.lowAt = b.delay, b.Now
		if d.until == 0 && d.next != 0 {
			d.next = max(d.next, d.after(b, rounds))
		}
	}
	if d.until != 0 && !d.ended && b.delay > 0 && b.Now >= d.shown && b.Now <= d.next {
		d.sum += b.delay
		d.seen++
	}
	switch {
	case d.next == 0:
		d.next = b.Now.Add(drainGap(b.round, rounds))
	case d.until == 0 && d.spare > 0 && s.cubic.from > 0 && b.delay > 0 && b.delay <= s.Base()+s.Base()/freshPart && b.Now >= d.next:
		d.spare--
		d.lowest, d.next = 0, b.Now.Add(drainGap(b.round, rounds)) // this is what a drain is to show
	case b.Now < d.next:
	case d.until == 0:
		if s.window < s.threshold { // slow start shows enough
			return false
		}
		d.limit = max(s.window/drainShare, s.packet/4)
		d.next = b.Now.Add(drainLength * b.round)
		d.until = d.next.Add(b.round)
		d.least, d.base, d.lowest = 0, s.Base(), 0
		d.shown, d.before, d.sum, d.seen, d.ended = b.Now.Add(b.round), s.delay.filtered-s.Base(), 0, 0, false
	case d.limit < s.window:
		// The window comes back as in slow start: all of it at once would be a burst into an empty queue.
		d.limit += max(b.delivered, 1)
	case b.Now >= d.until:
		d.limit, d.until, d.next = 0, 0, max(b.Now, d.after(b, rounds))
		d.calmAt = b.Now.Add(2 * b.Smoothed)
		if d.spare = spareDrains; s.Base() < d.base-d.base/freshPart {
			d.spare = 0 // who knows whether that was all
		}
		return true
	}
	if d.until > b.Now && b.delay > 0 {
		d.shows(s, b)
	}
	return false
}

// shows handles a round trip of a drain. A round trip without a queue ends the drain, because there is nothing more to see. Jitter that
// keeps the order makes one of hundreds as short, so the following round trips decide whether the queue is gone.
func (d *drain) shows(s *State, b *batch) {
	if d.ended && d.seen < behindShort {
		d.sum += b.delay
		d.seen++
	}
	if d.least != 0 && b.delay >= d.least {
		return
	}
	if d.least = b.delay; !d.ended && s.window >= enough*s.packet && d.least <= s.Base()+s.Base()/16 {
		d.next = min(d.next, b.Now)
		d.sum, d.seen, d.ended = 0, 0, true
	}
}

// after is when the drain after that begins which showed the lowest round trip.
func (d *drain) after(b *batch, rounds int) clock.Time {
	return d.lowAt.Add(drainGap(b.round, rounds) - drainLead*b.round)
}

// drainGap is the time from one drain to the next. It is one of few, so that flows that share a queue have the same.
func drainGap(round time.Duration, rounds int) time.Duration {
	gap := minDrainGap
	if rounds < drainRounds {
		gap /= 4
	}
	for gap < time.Duration(rounds)*round {
		gap *= 2
	}
	return min(gap, maxDrainGap)
}
