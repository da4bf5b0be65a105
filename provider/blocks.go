package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file writes and reads the blocks between the base header and what a packet carries: ACK and REPORT (PROTOCOL §3.5, §3.6).

// besideRanges is how many ranges an ACK block has at the most in a packet of operations. An acknowledgement alone has room for all.
const besideRanges = 3

// arrival is what the blocks of the packet at hand say, and its number.
type arrival struct {
	number    uint64
	overtaken bool // a packet with a larger number was heard before
	ack       wire.Ack
	report    wire.Report
}

// takeBack takes back what was acknowledged of the request space and not carried out.
func (c *conn) takeBack() {
	c.receives.TakeBack(c.received.Largest(), c.rx[wire.RequestSpace].next)
	c.takenIn = 0
}

// confirmTaken notes that our packets from low to high arrived.
func (c *conn) confirmTaken(low, high uint64) {
	if c.takenIn != 0 && low <= c.takenIn && c.takenIn <= high {
		c.takenIn = 0
		c.receives.Known()
	}
}

// putBlocks writes the blocks that are due into the packet that was just begun: an ACK block of at most most ranges, and a REPORT block
// when something was taken back. always adds an ACK block that says nothing new, report the REPORT block.
func (c *conn) putBlocks(most int, always, report bool) {
	e := c.engine
	out, a := &e.out, &e.ackMsg
	if !always && !c.received.Untold() && !c.marks.Owed() {
		return
	}
	report = report || c.receives.TakenBack()
	if c.received.Tell(a, e.now, most) {
		a.Flags = 0
		if c.marks.Owed() && !report {
			a.Flags |= wire.AckCE
		}
		if c.received.Late() {
			a.Flags |= wire.AckAway
		}
		out.PutAck(a)
	}
	if report {
		e.reportMsg = wire.Report{ReceiveLimit: c.receiveLimit(), Load: e.received.Load(), CECount: c.marks.Count()}
		c.receives.Report(&e.reportMsg)
		out.PutReport(&e.reportMsg)
	}
}

// blocksLeft notes that the packet with this number carries the blocks that were put into it.
func (c *conn) blocksLeft(number uint64) {
	out := &c.engine.out
	if out.Flags()&(wire.FlagAck|wire.FlagReport) == 0 {
		return
	}
	if out.Flags()&wire.FlagAck != 0 {
		c.received.Told(number, out.Told())
	}
	if out.Flags()&wire.FlagReport != 0 {
		c.receives.Tell(c.engine.reportMsg.ReceiveLimit)
		if c.receives.TakenBack() && c.takenIn == 0 {
			c.takenIn = number
		}
	}
	c.marks.Told()
}

// takeBlocks takes in the blocks of the packet at hand. It reports false when they speak of what was never sent: such a packet is
// forged or corrupt and must not be used.
func (c *conn) takeBlocks(flags wire.Flags) bool {
	in := &c.engine.in
	largest := uint64(0)
	if flags&wire.FlagAck != 0 {
		var ok bool
		if largest, ok = c.sent.Resolve(&in.ack); !ok {
			return false
		}
	}
	report := flags&wire.FlagReport != 0 && c.phase == phaseOpen
	if report && in.report.Flags&wire.ReportTakenBack != 0 && !c.onTakenBack(&in.report) {
		return false
	}
	if flags&wire.FlagAck != 0 {
		c.onAck(&in.ack, largest)
	}
	if report && c.phase == phaseOpen { // it may have acknowledged the end
		c.onReport(&in.report)
	}
	return true
}

// onTakenBack takes in what the peer took back. It reports false when that was never sent.
func (c *conn) onTakenBack(r *wire.Report) bool {
	upTo, ok := c.sent.Expand(r.UpTo)
	if !ok {
		return false
	}
	sp := &c.tx[wire.RequestSpace]
	place, ok := c.place(c.qp.queue(), sp, r.Message, r.Offset)
	if !ok {
		return false
	}
	if upTo <= c.refusedTo {
		return true // it is told until we are known to have heard it, and what went again since does count
	}
	c.refusedTo = upTo
	sp.TakenBack(place)
	if c.requesting() {
		c.qp.sq.keepLocals(sp, place)
	}
	for n := c.sent.Floor(); n <= upTo && n < c.sent.Next(); n++ {
		if p := c.sent.Packet(n); p.Kind == recovery.Requests && place.Before(p.To) {
			c.refused(p)
			c.sent.Void(p) // no acknowledgement of it counts
		}
	}
	if sp.HasAgain() {
		c.activate()
	}
	return true
}

// refused takes in that what a transmission carried is not at the peer, without a loss.
func (t *traffic) refused(p *recovery.Packet) {
	t.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses, Refused: true})
}

// onReport takes in a REPORT block.
func (c *conn) onReport(r *wire.Report) {
	overtaken := c.engine.in.overtaken
	switch {
	case r.Flags&wire.ReportRNR != 0:
		if !overtaken {
			c.pause(r)
		}
	case int32(r.ReceiveLimit-c.sendLimit) > 0:
		c.sendLimit = r.ReceiveLimit
		c.activate()
	}
	if c.paused && r.Flags&wire.ReportRNR == 0 && !overtaken {
		c.resume()
	}
	c.cc.Load(c.engine.now, r.Load, c.rtt.Smoothed)
	c.engine.heard.join(c)
	c.onMarks(c.marks.Reported(r.CECount))
}

// keep notes that what the packet at hand carried is here to stay, so that its number may be acknowledged.
func (c *conn) keep() { c.received.Add(c.engine.in.number, c.engine.now, c.engine.turns.Away()) }
