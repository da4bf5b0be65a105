package turn

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Clock measures the turns of one engine. The owner of the engine calls it; the zero Clock is one of an engine that is busy.
type Clock struct {
	lookedAt    clock.Time    // when packets were looked for last
	unwatched   time.Duration // how long nobody looked for packets before this turn
	awayFrom    clock.Time    // the beginning of the last unwatched time that was far longer than a turn takes
	interrupted clock.Time    // beginning of the poll in or after which the engine was interrupted
	away        bool          // this poll ended an interruption
	blind       bool          // nobody waits for packets between turns: they lie in the ring until the next turn
	sent        bool          // this turn sent packets
	worked      bool          // the turn before did

	cost      time.Duration // filtered time of a turn that sends packets
	working   time.Duration // time spent in such polls since shareFrom
	shareFrom clock.Time
	idleShare int // share of recent time outside such polls, in 1/shareUnit
}

const (
	// awayGap is the time between two turns from which on the engine counts as having been off its core.
	awayGap = 200 * time.Microsecond
	// leastBlur is how long packets may always wait for a turn: what a small batch takes to leave.
	leastBlur = 50 * time.Microsecond
	// The share of time spent on sending is taken over shareSpan, several round trips. A span above maxShareSpan was mostly idle,
	// which says nothing about now.
	shareSpan    = time.Millisecond
	maxShareSpan = 10 * shareSpan
	shareUnit    = 1 << 16
)

// Begin begins a poll at now. The previous poll, or a later call from the engine's owner, began at last. If the previous poll sent packets,
// its duration is learned: another poll follows it at once, so that the time between the two is its duration. If no goroutine waits for
// packets between polls, packets may have been in the ring since the previous poll. A time far longer than a poll means that the engine's
// owner was interrupted.
func (c *Clock) Begin(last, now clock.Time) {
	c.unwatched, c.away = 0, false
	if c.sent || c.blind {
		c.unwatched = now.Sub(c.lookedAt)
	} else {
		c.lookedAt = now // whoever waited for packets would have seen them
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

// Look notes that packets are looked for at now.
func (c *Clock) Look(now clock.Time) { c.lookedAt = now }

// Watch says before a turn whether somebody has waited for packets since the turn before.
func (c *Clock) Watch(watched bool) { c.blind = !watched }

// Send notes that this turn sent packets.
func (c *Clock) Send() { c.sent = true }

// Sent says whether this turn sent packets.
func (c *Clock) Sent() bool { return c.sent }

// Blurs says whether the packets of this poll may have waited so long that it matters on a path with this least round trip: the engine's
// owner was descheduled, or the previous poll sent for that long.
func (c *Clock) Blurs(least time.Duration) bool {
	return c.away || c.unwatched > max(leastBlur, least/2)
}

// Trip is the round trip of a packet.
type Trip struct {
	Left  clock.Time
	Held  time.Duration // by the peer
	Came  clock.Time    // the acknowledgement: to this machine where Known says so, and else in the turn that found it
	Known bool
}

// Took is how long the packet and its acknowledgement were on their way, and waited here where nobody knows for how long.
func (t Trip) Took() time.Duration { return t.Came.Sub(t.Left) - t.Held }

// Network returns the network's part of a round trip that ended in the poll that began at now. Time since the engine last looked does not
// count if the engine was busy sending. On veth the kernel's part of a send runs on the sender's time, 60 us for 32 packets of 1500 bytes
// and 600 us for 32 of 64 KiB, and acknowledgements wait until it is done. That time does not count either if nobody looked and the arrival
// time of the acknowledgement is unknown. The part is at least least, or the whole trip if that is shorter.
//
// ok is false if the round trip says nothing. That is so if it spans an interruption of the owner and the arrival time of the
// acknowledgement is unknown. It is also so if the interruption began in the poll that sent the packet, because the packet may have left
// after it.
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

// OwnPart is how much longer than the path's round trip a round trip may be because of the engine's work: two polls, this engine's and the
// peer's, if they limit the connection. An engine that mostly waits gets no allowance. With an allowance for whole polls, the flow with the
// largest window had the longest polls, and so the highest target, and kept others out (Jain index 0.45 to 0.99 for four hosts behind a
// router, 0.98 with this rule).
func (c *Clock) OwnPart() time.Duration {
	return 2 * c.cost * time.Duration(shareUnit-c.idleShare) / shareUnit
}
