package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/wire"
)

// ackUrgency is when the receiver speaks.
type ackUrgency uint8

const (
	ackNone    ackUrgency = iota
	ackDelayed            // within Config.AckDelay
	ackSoon               // in ackTurns turns, unless data carries it before: an application that answers does so in between
	ackAtOnce             // at the end of this turn
)

// ackTurns is how many turns an acknowledgement that was asked for waits for data to carry it. A polling application
// looks into its completion queue once or twice more before it answers; a turn without work takes 0.1 µs, an ACK of its
// own 2 µs.
const ackTurns = 4

// ackState is which acknowledgement the connection has to send.
type ackState struct {
	urgency ackUrgency
	explain bool // only a whole ACK will do: gaps, or a new receive limit
	turns   int8 // turns that ackSoon still waits
	packets int  // received since the last word
	at      clock.Time
}

// noteAccepted is called for every packet accepted in order, and decides when it is acknowledged (PROTOCOL §9.2). asked is the ACKREQ flag, gap that a gap closed.
func (c *conn) noteAccepted(asked, gap bool) {
	a := &c.ack
	a.packets++
	switch {
	case gap, c.engine.received.Load() > congestion.LoadHigh && a.packets >= c.engine.cfg.AckEvery:
		c.ackNow() // only a whole ACK carries the load
	case a.packets >= c.engine.cfg.AckEvery:
		c.raise(ackAtOnce)
	case asked:
		c.raise(ackSoon)
	case a.urgency == ackNone:
		a.at = c.engine.now.Add(c.engine.cfg.AckDelay)
		a.urgency = ackDelayed
		c.touch()
	}
}

// noteMark takes in whether a new packet was marked by a router. The peer hears of a change at once, so that it counts
// right (RFC 8257 §3.2).
func (c *conn) noteMark(marked bool) {
	if marked {
		c.ack.explain = c.ack.explain || c.ceEcho // data can tell of one
		c.ceCount++
		c.ceEcho = true
	}
	if marked != c.ceLast {
		c.ceLast = marked
		c.ackNow()
	}
}

// ackNow makes a whole ACK go out at the end of this turn.
func (c *conn) ackNow() {
	c.leaveIdle()
	c.ack.explain = true
	c.raise(ackAtOnce)
}

func (c *conn) raise(u ackUrgency) {
	a := &c.ack
	if u == ackSoon && a.urgency < ackSoon {
		a.turns = ackTurns
	}
	if u > a.urgency {
		a.urgency = u
	}
	if !c.inAcks {
		c.inAcks = true
		c.engine.acks = append(c.engine.acks, c)
	}
}

// ackSent notes that the packet at hand goes out, with an ACK block if anything is new.
func (c *conn) ackSent() {
	if c.engine.out.Flags()&wire.FlagAck == 0 {
		return
	}
	a := &c.ack
	a.packets = 0
	if !a.explain {
		a.urgency = ackNone
	}
}

// acknowledge sends the acknowledgements that are due, once for each connection and turn at the most.
func (e *Engine) acknowledge() {
	keep := e.acks[:0]
	for _, c := range e.acks {
		switch {
		case c.phase == phaseFree || c.ack.urgency < ackSoon:
			c.inAcks = false
		case c.ack.urgency == ackSoon && c.ack.turns > 0:
			c.ack.turns--
			keep = append(keep, c)
		case !c.sendAck():
			keep = append(keep, c) // no frames: the next turn
		default:
			c.inAcks = false
			if c.phase == phaseLingering {
				c.touch() // it waited for this
			}
		}
	}
	clear(e.acks[len(keep):])
	e.acks = keep
}

// sendAck sends a packet of blocks alone (PROTOCOL §9.2).
func (c *conn) sendAck() bool {
	e := c.engine
	if !c.beginControl(wire.BaseHeaderLen+wire.MaxBlocksLen, true) {
		e.out.Starve()
		return false
	}
	c.ack = ackState{}
	e.stats.AcksOut++
	c.sealControl()
	return true
}

// receiveLimit is the first SEND number the peer may not use yet: one for every receive posted. What is in a shared queue
// is told to everybody, and at least one, so that a peer may always try; RNR takes it back.
func (c *conn) receiveLimit() uint32 {
	qp := c.qp
	switch {
	case qp == nil:
		return c.advertised
	case qp.srq == nil:
		return c.recvSend + qp.rq.waiting()
	case c.wait.State() == credit.Starved:
		return c.recvSend
	}
	limit := c.recvSend + max(qp.rq.waiting()+qp.srq.free.Load(), 1)
	if int32(limit-c.advertised) < 0 {
		return c.advertised
	}
	return limit
}

// promise is the receive limit that the handshake tells. The application may flush the receives behind it.
func (c *conn) promise() uint32 {
	limit := c.receiveLimit()
	c.promised = max(c.promised, limit)
	return limit
}

// checkReceiveLimit tells the peer about new receives when it is running short: at once when it has none left, and when
// what it does not know of is as much as what it has left. A fraction of the queue's depth would not do: a queue that its
// application keeps less than half full made every SEND cost an ACK.
func (c *conn) checkReceiveLimit() {
	qp := c.qp
	left := int32(c.advertised - c.recvSend)
	starving := left <= 0
	qp.rq.starved.Store(starving)
	limit := c.receiveLimit()
	if limit == c.advertised {
		return
	}
	if starving || int32(limit-c.advertised) >= left {
		c.ackNow()
	}
}
