package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file answers why a connection does not send more. The answer is looked for when the scheduler has served the
// connection, which is the only place where it stops sending, and time is charged when the answer changes: nothing is done
// for a packet, and no clock is read.

// Limit is what keeps a connection from sending more now.
type Limit uint8

// The limits. A connection has exactly one at any time, so that their shares sum up to the time that it is open.
const (
	LimitApplication Limit = iota // nothing is posted that is not sent, or it waits for what was posted before
	LimitReceive                  // the peer has no receive for the next SEND
	LimitRead                     // the outbound read limit is used up, or a read fence waits
	LimitFabric                   // the window for the path: round trip, loss, marks
	LimitEndpoint                 // the window for the peer: its receive memory, or the packets that it holds
	LimitRing                     // the link had no transmit frame
	LimitCPU                      // the engine's turn ended, or that of the connection
	NumLimits
)

var limitNames = [NumLimits]string{"application", "receive", "read", "fabric", "endpoint", "ring", "cpu"}

// String is the name as metrics print it.
func (l Limit) String() string { return limitNames[l] }

// limitTimes is how long each limit held the connection back since it was last idle. What was before is in idleState.
type limitTimes struct {
	spent [NumLimits]time.Duration // but LimitApplication, which is the rest
	since clock.Time               // of by
	by    Limit
}

// limitHistory is the sum of all limitTimes before the connection was last idle, in seconds. A float has a range of years in four bytes, and
// whatever rounding takes away is below a millionth.
type limitHistory [NumLimits - 1]float32

func (h *limitHistory) add(l *limitTimes) {
	for i := range h {
		h[i] += float32(l.spent[i+1].Seconds())
	}
}

// limitedBy notes what holds the connection back from now on.
func (c *conn) limitedBy(by Limit) {
	l := &c.limitTimes
	if by == l.by || c.phase != phaseOpen {
		return
	}
	now := c.engine.now
	l.spent[l.by] += now.Sub(l.since)
	c.engine.limitTotals.move(now, l.by, by)
	l.by, l.since = by, now
}

// limit is what holds the connection back. Nothing is under way on an idle one.
func (c *conn) limit() Limit {
	if c.traffic == nil {
		return LimitApplication
	}
	return c.limitTimes.by
}

// noteLimit finds out what holds the connection back, after it was served. again says that it could send more at once.
func (c *conn) noteLimit(again bool) {
	by := LimitApplication
	switch {
	case again && c.engine.starved:
		by = LimitRing
	case again:
		by = LimitCPU
	case c.paused:
		by = LimitReceive
	case c.tx[0].lost+c.tx[1].lost > 0 || c.served.next.seq != c.served.tail:
		by = c.packetLimit()
	case c.qp != nil && !c.noRequests && c.qp.sq.next != c.qp.sq.posted.Load():
		by = c.requestLimit()
	}
	c.limitedBy(by)
}

// requestLimit is what the next request waits for.
func (c *conn) requestLimit() Limit {
	q := &c.qp.sq
	wr := q.wr(q.next)
	switch {
	case q.off != 0:
	case wr.kind.local():
		return LimitApplication
	case wr.flags&FlagReadFence != 0 && c.reads.count > 0:
		return LimitRead
	case wr.kind == KindRead && c.reads.count >= c.ord:
		return LimitRead
	case wr.kind == KindRead && !c.mayRead():
		return c.windowLimit()
	case wr.kind == KindSend && int32(c.sendLimit-c.nextSend) <= 0:
		return LimitReceive
	}
	return c.packetLimit()
}

// packetLimit is what the next packet waits for.
func (c *conn) packetLimit() Limit {
	cc := &c.cc
	switch {
	case cc.Full(c.inFlight(), c.engine.now):
		return c.windowLimit()
	case c.tx[wire.RequestSpace].outstanding() >= c.peerWindow || c.tx[wire.ResponseSpace].outstanding() >= c.peerWindow:
		return LimitEndpoint
	case c.hasPaused && c.tx[wire.RequestSpace].lost > 0:
		return LimitReceive // what RNR took back is not allowed yet
	}
	return LimitApplication // posted since we looked
}

// windowLimit is whose window is the least.
func (c *conn) windowLimit() Limit {
	if c.cc.LimitedByEndpoint() {
		return LimitEndpoint
	}
	return LimitFabric
}

// limitTotals counts the open connections of an engine by what holds them back, and sums up the time over all of them. The sums
// never fall, also when connections end.
type limitTotals struct {
	count  [NumLimits]uint64
	micros [NumLimits]uint64 // of connection time: nanoseconds would not last two days with 100,000 connections
	at     clock.Time        // what is summed up
}

// fold sums up until now.
func (s *limitTotals) fold(now clock.Time) {
	d := now.Sub(s.at) / time.Microsecond
	if d <= 0 {
		return
	}
	s.at += clock.Time(d * time.Microsecond)
	for i, n := range s.count {
		s.micros[i] += n * uint64(d)
	}
}

func (s *limitTotals) enter(now clock.Time, l Limit) {
	s.fold(now)
	s.count[l]++
}

func (s *limitTotals) exit(now clock.Time, l Limit) {
	s.fold(now)
	s.count[l]--
}

func (s *limitTotals) move(now clock.Time, from, to Limit) {
	s.fold(now)
	s.count[from]--
	s.count[to]++
}

// closeAccount ends the accounting of a connection that is open until now.
func (c *conn) closeAccount() {
	if c.phase == phaseOpen {
		c.engine.limitTotals.exit(c.engine.now, c.limit())
	}
}
