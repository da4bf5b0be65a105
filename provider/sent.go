package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// onNext takes in the cumulative acknowledgements that every packet carries. It reports false when one of them names a
// PSN that was never sent: such a packet is forged or corrupt and must not be used.
func (c *conn) onNext(h wire.BaseHeader) bool {
	for space := range c.tx {
		sp := &c.tx[space]
		if uint32(h.NextPSN(wire.Space(space)).Sub(sp.una)) > sp.outstanding() && h.NextPSN(wire.Space(space)).Sub(sp.una) > 0 {
			return false
		}
	}
	progress := false
	for space := range c.tx {
		if next := h.NextPSN(wire.Space(space)); next.Sub(c.tx[space].una) > 0 {
			c.ackTo(wire.Space(space), next, c.engine.echoed(h))
			progress = true
		}
	}
	if progress {
		c.recovery.progress(c, c.engine.echoed(h))
		if c.hasWork() {
			c.activate()
		}
	}
	return true
}

// ackTo acknowledges every packet of the space below next. echo is that of the packet which says so (echoed).
func (c *conn) ackTo(space wire.Space, next wire.PSN, echo clock.Time) {
	sp := &c.tx[space]
	acked := 0
	for psn := sp.una; psn != next; psn++ {
		rec := sp.record(psn)
		switch {
		case rec.state&recSacked != 0:
			sp.sacked--
		case rec.state&recLost != 0:
			sp.lost--
			acked++
		default:
			sp.inFlight--
			acked++
		}
		c.recovery.delivered(space, psn, rec, echo)
	}
	sp.una = next
	c.delivered(acked)
	if space == wire.RequestSpace {
		c.paused = false // the peer took what it had dropped
		if c.blockedAt != 0 {
			c.blockedAt = c.engine.now // what went before was still under way: no fault of the peer's
			c.faultAhead(c.qp.sq.next)
		}
		c.completeRequests()
		return
	}
	for r := &c.served; r.head != r.next.seq && r.slots[r.head%maxReadLimit].lastPSN.Sub(next) < 0; r.head++ {
	}
	if c.termSent && c.termPSN.Sub(next) < 0 {
		c.termAcknowledged()
	}
}

// onSACK marks packets that arrived beyond a gap. The bitmaps count from the acknowledgement in their own header, which is
// older than ours when the ACK was overtaken.
func (c *conn) onSACK(a *wire.Ack, h wire.BaseHeader) {
	for space := range c.tx {
		if c.hasPaused && space == int(wire.RequestSpace) && c.overtaken(h) {
			continue // from before the peer dropped what it had
		}
		echo := c.engine.echoed(h)
		first := h.NextPSN(wire.Space(space)).Add(1)
		for w := range a.Words[space] {
			for bits := a.Bitmap[space][w]; bits != 0; bits &= bits - 1 {
				c.sack(wire.Space(space), first.Add(uint32(w*64+trailingZeros(bits))), echo)
			}
		}
	}
	c.detectLoss()
	c.activate() // a packet less in flight is room for another one
}

// sack marks a packet as arrived, when it is outstanding.
func (c *conn) sack(space wire.Space, psn wire.PSN, echo clock.Time) {
	sp := &c.tx[space]
	if !psn.InWindow(sp.una, sp.outstanding()) {
		return
	}
	rec := sp.record(psn)
	if rec.state&recSacked != 0 {
		return
	}
	if rec.state&recLost != 0 {
		sp.lost--
	} else {
		sp.inFlight--
	}
	rec.state = rec.state&^recLost | recSacked
	sp.sacked++
	c.delivered(1)
	c.recovery.delivered(space, psn, rec, echo)
}
