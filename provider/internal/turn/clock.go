package turn

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Clock measures the polls of one engine. The owner of the engine calls it. The zero Clock is valid for a busy engine.
type Clock struct {
	lookedAt    clock.Time    // when the engine last looked for packets
	unwatched   time.Duration // time before this poll in which no goroutine looked for packets
	awayFrom    clock.Time    // beginning of the newest unwatched time that was far longer than a poll
	interrupted clock.Time    // beginning of the poll in or after which the engine was last interrupted
	away        bool          // the engine was interrupted before this poll
	blind       bool          // no goroutine waits for packets between polls: they stay in the ring until the next poll
	sent        bool          // this poll sent packets
	worked      bool          // the previous poll sent packets

	cost      time.Duration // smoothed duration of a poll that sends packets
	working   time.Duration // time spent in polls that send packets since shareFrom
	shareFrom clock.Time    // beginning of the current measurement of idleShare
	idleShare int           // recent share of time outside polls that send packets, in units of 1/shareUnit
}

const (
	// awayGap is the least time between two polls after which the engine counts as descheduled.
	awayGap = 200 * time.Microsecond
	// leastBlur is a wait for the next poll that is always accepted: the time to send a small batch.
	leastBlur = 50 * time.Microsecond
	// The share of time spent on sending is measured over shareSpan, several round trips. A longer span than maxShareSpan was
	// mostly idle and is ignored.
	shareSpan    = time.Millisecond
	maxShareSpan = 10 * shareSpan
	shareUnit    = 1 << 16
)

// Begin starts a poll at now. The previous poll, or a later call of the engine's owner, began at last. If the previous poll sent
// packets, the next poll follows at once, so the time between the two measures the duration of a poll. If no goroutine waits for
// packets between polls, packets may have been in the ring since the previous poll. If the time is far longer than a poll, the
// engine's owner was interrupted.
func (c *Clock) Begin(last, now clock.Time) {
	c.unwatched, c.away = 0, false
	if c.sent || c.blind {
		c.unwatched = now.Sub(c.lookedAt)
	} else {
		c.lookedAt = now // a waiting goroutine would have seen earlier packets
	}
	if c.unwatched > awayGap+2*c.cost {
		c.away, c.awayFrom, c.interrupted = true, c.lookedAt, last
	} else if c.sent {
		gap := now.Sub(last)
		c.cost += (gap - c.cost) / 8
		c.working += gap
	}
	c.sent, c.worked = false, c.sent
	if span := now.Sub(c.shareFrom); span > shareSpan {
		if span < maxShareSpan {
			c.idleShare = shareUnit - int(c.working*shareUnit/span)
		}
		c.working, c.shareFrom = 0, now
	}
}

// Look records that the engine looks for packets at now.
func (c *Clock) Look(now clock.Time) { c.lookedAt = now }

// Watch records whether a goroutine has waited for packets since the previous poll.
func (c *Clock) Watch(watched bool) { c.blind = !watched }

// Send records that this poll sent packets.
func (c *Clock) Send() { c.sent = true }

// Sent reports whether this poll sent packets.
func (c *Clock) Sent() bool { return c.sent }

// Blurs reports whether packets of this poll may have waited for a time that matters beside the path's least round trip. They may
// have if the engine's owner was descheduled, or if the previous poll sent for so long.
func (c *Clock) Blurs(least time.Duration) bool {
	return c.away || c.unwatched > max(leastBlur, least/2)
}

// Trip is one measured round trip.
type Trip struct {
	Left  clock.Time
	Held  time.Duration // time that the peer held the acknowledgement
	Came  clock.Time    // if Known, when the acknowledgement reached this machine; otherwise the beginning of the poll that found it
	Known bool
}

// Took returns the time in the network, including the time in the receive ring if Known is false.
func (t Trip) Took() time.Duration { return t.Came.Sub(t.Left) - t.Held }

// Network returns the part of a round trip that the network took. The round trip ended in the poll that began at now. Time since the
// engine last looked for packets does not count if the engine was busy sending. On veth, the kernel's part of a send runs on the sender's
// processor time: 60 us for 32 packets of 1500 bytes, 600 us for 32 of 64 KiB. Acknowledgements wait until the send is done. Time in
// which no goroutine looked does not count either if the arrival time of the acknowledgement is unknown. The result is not less than the
// argument least, unless the whole round trip is shorter.
//
// ok is false if the round trip cannot be used: it spans an interruption of the owner and the arrival time of the acknowledgement
// is unknown. It cannot be used either if the interruption began in the poll that sent the packet, because the packet may have left
// after the interruption.
func (c *Clock) Network(t Trip, least time.Duration, now clock.Time) (part time.Duration, ok bool) {
	d := t.Took()
	switch {
	case t.Known && t.Left == c.interrupted, !t.Known && t.Left <= c.awayFrom:
		return 0, false
	case t.Known && !c.worked:
		return d, true
	}
	return max(d-max(c.unwatched-now.Sub(t.Came), 0), min(d, least)), true
}

// OwnPart returns how much engines may lengthen a round trip: by two polls, one of this engine and one of the peer's, if they limit the
// connection. If the engine mostly waits for packets, the result is near zero. If whole polls counted, the flow with the largest window
// would have the longest polls, and so the highest delay target, and would starve other flows. (Four hosts behind a router had a Jain
// index of 0.45 to 0.99 when whole polls counted, and 0.98 with this rule.)
func (c *Clock) OwnPart() time.Duration {
	return 2 * c.cost * time.Duration(shareUnit-c.idleShare) / shareUnit
}
