package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A connection that keeps a queue never sees its path without the queue. So from time to time it reduces its window, and its part
// of the queue drains. A flow whose least round trip contains the queue of earlier flows then sees a shorter one. BBR drains every
// 10 s for the same reason.
//
// The drain of one among many flows hardly changes the queue. So flows synchronize their drains, as in BBR. The next drain is timed
// from the shortest round trip after the last drain, which all flows of a queue see at the same time, whichever flow drained.
// Intervals differ by powers of two.
const (
	drainRounds  = 32 // least round trips between two drains
	minDrainGap  = 20 * time.Millisecond
	maxDrainGap  = 10 * time.Second
	drainLength  = 2 // length of a drain in round trips
	drainLead    = 2 // round trips from the beginning of a drain to the shortest queue
	drainShare   = 8 // a drain divides the window by this
	searchRounds = 8 // round trips between two drains while a queue stays long
	freshPart    = 8
	spareDrains  = 7
	enough       = 8 // window in packets that may grow again as soon as the queue is empty
	behindShort  = 3 // round trips after one without a queue that confirm it
)

// drain is the state of draining: when the window is reduced, and what the drains showed.
type drain struct {
	limit  int           // present limit of the window; zero for none
	next   clock.Time    // beginning of the next drain, or of the next step of this one
	until  clock.Time    // when packets of this drain are acknowledged; zero outside a drain
	least  time.Duration // least round trip of this drain; zero for no sample
	lowest time.Duration // least round trip after the beginning of the newest drain; zero for no sample
	lowAt  clock.Time    // time of lowest
	base   time.Duration // least round trip before this drain
	before time.Duration // queue before this drain
	shown  clock.Time    // from this time, packets arrive that left during the drain
	sum    time.Duration // sum of their round trips
	seen   time.Duration // number of these round trips
	ended  bool          // a round trip without a queue ended the drain
	calmAt clock.Time    // when losses of its bursts are known
	spare  int           // drains to skip if the path shows its round trip by itself
}

func (d *drain) bound(window int) int {
	if d.limit == 0 {
		return window
	}
	return min(window, d.limit)
}

// active reports whether the window is reduced, or grows back after a drain.
func (d *drain) active() bool { return d.limit > 0 }

// step advances the drain. It returns true at the end of a drain, whose result is in least. rounds is the number of round trips
// between drains.
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
		d.lowest, d.next = 0, b.Now.Add(drainGap(b.round, rounds)) // the path showed its round trip without a drain
	case b.Now < d.next:
	case d.until == 0:
		if s.window < s.threshold { // slow start shows the path by itself
			return false
		}
		d.limit = max(s.window/drainShare, s.packet/4)
		d.next = b.Now.Add(drainLength * b.round)
		d.until = d.next.Add(b.round)
		d.least, d.base, d.lowest = 0, s.Base(), 0
		d.shown, d.before, d.sum, d.seen, d.ended = b.Now.Add(b.round), s.delay.filtered-s.Base(), 0, 0, false
	case d.limit < s.window:
		// The window grows back as in slow start, because the whole window at once would be a burst into an empty queue.
		d.limit += max(b.delivered, 1)
	case b.Now >= d.until:
		d.limit, d.until, d.next = 0, 0, max(b.Now, d.after(b, rounds))
		d.calmAt = b.Now.Add(2 * b.Smoothed)
		if d.spare = spareDrains; s.Base() < d.base-d.base/freshPart {
			d.spare = 0 // the round trip may fall further
		}
		return true
	}
	if d.until > b.Now && b.delay > 0 {
		d.shows(s, b)
	}
	return false
}

// shows handles a round trip of a drain. A round trip without a queue ends the drain, because the drain has shown the path.
// In-order jitter makes one of hundreds as short, so the following round trips decide whether the queue is gone.
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

// after returns the beginning of the next drain, timed from the lowest round trip.
func (d *drain) after(b *batch, rounds int) clock.Time {
	return d.lowAt.Add(drainGap(b.round, rounds) - drainLead*b.round)
}

// drainGap returns the time between two drains. It has few possible values, so that flows that share a queue have equal ones.
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
