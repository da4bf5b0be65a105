package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// This file writes and reads the blocks between the base header and what a packet carries: ACK and REPORT (PROTOCOL §3.5, §3.6).

// besideRanges is how many ranges an ACK block has at the most in a packet of operations. An acknowledgement alone has room for all.
const besideRanges = 3

// arrival is what the blocks of the packet at hand say, and its number.
type arrival struct {
	number    uint64
	overtaken bool       // a packet with a larger number was heard before
	came      clock.Time // to this machine where known says so; else in this turn
	known     bool
	ack       wire.Ack
	report    wire.Report
	opened    opened // of an encrypted connection
}

// takeBack takes back what was acknowledged of the request space and not carried out.
func (r *receivedState) takeBack() {
	r.conn.receives.TakeBack(r.numbers.Largest(), r.spaces[wire.RequestSpace].next)
	r.takenIn = 0
}

// confirmTaken notes that our packets from low to high arrived.
func (r *receivedState) confirmTaken(low, high uint64) {
	if r.takenIn != 0 && low <= r.takenIn && r.takenIn <= high {
		r.takenIn = 0
		r.conn.receives.Known()
	}
}

// putBlocks writes the blocks that are due into the packet that was just begun. The ACK block has at most most ranges. A REPORT block
// follows if acknowledged data were dropped (TAKENBACK), or if the peer has few receives left. If always is true, an ACK block is written
// even if it says nothing new. If report is true, a REPORT block is written too.
func (r *receivedState) putBlocks(most int, always, report bool) {
	e := r.engine
	out, a := &e.out, &e.ackMsg
	if !always && !r.numbers.Untold() && !r.conn.marks.Owed() && !r.ack.Explains() {
		return
	}
	report = report || !r.conn.phase.Attempt() && (r.ack.Explains() || r.conn.receives.TakenBack() || r.conn.receives.Worth(r.conn.receiveLimit()))
	if r.numbers.Tell(a, out.Now(e.now), most) {
		a.Flags = 0
		if r.conn.marks.Owed() && !report {
			a.Flags |= wire.AckCE
		}
		if r.numbers.Late() {
			a.Flags |= wire.AckAway
		}
		out.PutAck(a)
	}
	if report {
		e.reportMsg = wire.Report{ReceiveLimit: r.conn.receiveLimit(), Load: e.received.Load(), CECount: r.conn.marks.Count()}
		r.conn.receives.Report(&e.reportMsg)
		out.PutReport(&e.reportMsg)
	}
}

// blocksLeft notes that the packet with this number carries the blocks that were put into it.
func (r *receivedState) blocksLeft(number uint64) {
	out := &r.engine.out
	if out.Flags()&(wire.FlagAck|wire.FlagReport) == 0 {
		return
	}
	if out.Flags()&wire.FlagAck != 0 {
		r.numbers.Told(number, out.Told())
	}
	if out.Flags()&wire.FlagReport != 0 {
		r.conn.receives.Tell(r.engine.reportMsg.ReceiveLimit)
		if r.conn.receives.TakenBack() && r.takenIn == 0 {
			r.takenIn = number
		}
	}
	r.conn.marks.Told()
}

// takeBlocks handles the blocks of the current packet. It returns false if they name packets that were never sent: the packet is forged
// or corrupt and must not be used.
func (t *traffic) takeBlocks(flags wire.Flags) bool {
	in := &t.engine.in
	largest := uint64(0)
	if flags&wire.FlagAck != 0 {
		var ok bool
		if largest, ok = t.sent.packets.Resolve(&in.ack); !ok {
			return false
		}
	}
	report := flags&wire.FlagReport != 0 && t.conn.phase == phaseOpen
	if report && in.report.Flags&wire.ReportTakenBack != 0 && !t.onTakenBack(&in.report) {
		return false
	}
	if flags&wire.FlagAck != 0 {
		if k := t.conn.end.keys; k != nil {
			k.Out.Acknowledged(largest)
		}
		t.onAck(&in.ack, largest)
	}
	if report && t.conn.faulted == faultNone { // it may have acknowledged the end
		t.onReport(&in.report)
	}
	if t.conn.ecn.Everything() {
		t.sent.cc.Unmark(t.conn.rtt.Smoothed)
		t.conn.want(wantTurn)
	}
	t.sent.noteECN()
	return true
}

// onTakenBack records what the peer took back. It reports false when that was never sent.
func (t *traffic) onTakenBack(m *wire.Report) bool {
	upTo, ok := t.sent.packets.Expand(m.UpTo)
	if !ok {
		return false
	}
	sp := &t.sent.spaces[wire.RequestSpace]
	place, ok := t.requests.place(t.conn.qp.queue(), sp, m.Message, m.Offset)
	if !ok {
		return false
	}
	if upTo <= t.refusedTo {
		return true // it is told until we are known to have heard it, and what went again since does count
	}
	first := max(t.sent.packets.Floor(), t.refusedTo+1) // what left before was taken back before, as far as it was not carried out since
	t.refusedTo = upTo
	sp.TakenBack(place, func(from, to space.Place) {
		if t.requesting() {
			t.conn.qp.sq.keepLocals(sp, from, to)
		}
	})
	for n := first; n <= upTo; n++ {
		if p := t.sent.packets.Packet(n); p.Kind == recovery.Requests && place.Before(p.To) {
			t.sent.refused(p)
			t.sent.packets.Void(p) // no acknowledgement of it counts
		}
	}
	if sp.HasAgain() {
		t.conn.want(wantTurn)
	}
	return true
}

// refused records that what a transmission carried is not at the peer, without a loss.
func (s *sentState) refused(p *recovery.Packet) {
	s.spaces[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses, Refused: true})
}

// onReport takes in a REPORT block.
func (t *traffic) onReport(m *wire.Report) {
	overtaken := t.engine.in.overtaken
	switch {
	case m.Flags&wire.ReportRNR != 0:
		if !overtaken {
			t.pause(m)
		}
	case credit.Raise(t.requests.numbers.sendLimit, t.requests.numbers.nextSend, m.ReceiveLimit) != t.requests.numbers.sendLimit:
		t.requests.numbers.sendLimit = m.ReceiveLimit
		t.conn.want(wantTurn)
	}
	if t.sent.paused && m.Flags&wire.ReportRNR == 0 && !overtaken {
		t.resume()
	}
	t.sent.cc.Load(t.engine.now, m.Load, t.conn.rtt.Smoothed)
	t.conn.want(wantVerdict)
	if before := t.conn.marks.Peer(); t.conn.ecn.Reported(m.CECount, before, overtaken) {
		t.sent.onMarks(t.conn.marks.Reported(m.CECount))
	}
}

// keep records that the contents of the current packet are processed for good, so that its number may be acknowledged.
func (r *receivedState) keep() {
	r.numbers.Add(r.engine.in.number, r.engine.in.came, !r.engine.in.known && r.engine.turns.Blurs(r.conn.rtt.Min))
}

// The functions below decide when connections acknowledge, and what they tell of their receives. The decisions are in packages recovery and credit.

// noteAccepted is called for every packet accepted in order, and decides when it is acknowledged (PROTOCOL §9.2). asked is the ACKREQ flag, gap that a gap closed.
func (r *receivedState) noteAccepted(asked, gap bool) {
	e := r.engine
	at := e.now.Add(ackDelay)
	if r.woke {
		at, r.woke = e.now.Add(max(ackDelay, turn.AnswerTime)), false
	}
	switch r.ack.Accepted(asked, gap, e.received.Load() > congestion.LoadHigh, e.cfg.AckEvery, at) {
	case recovery.AckDelayed:
		r.conn.want(wantLook)
	case recovery.AckSoon, recovery.AckAtOnce:
		r.conn.want(wantAck)
	case recovery.AckNone:
	}
}

// noteMark takes in whether a new packet was marked by a router. The peer hears of a change at once, so that it counts
// right (RFC 8257 §3.2).
func (r *receivedState) noteMark(marked bool) {
	several, changed := r.conn.marks.Came(marked)
	if several {
		r.ack.ExplainLater()
	}
	if changed {
		r.ackNow()
	}
}

// ackNow makes a whole ACK go out at the end of this turn.
func (r *receivedState) ackNow() {
	r.ack.Explain()
	r.conn.want(wantAck)
}

// raise makes an acknowledgement go out no later than so.
func (r *receivedState) raise(u recovery.Urgency) {
	r.ack.Raise(u)
	r.conn.want(wantAck)
}

// sendAck sends a packet of blocks alone (PROTOCOL §9.2).
func (t *traffic) sendAck() bool {
	e := t.engine
	if !t.beginControl(wire.BaseHeaderLen+wire.MaxBlocksLen+wire.TagLen, true) {
		if t.silenced() { // frames would not help
			t.received.ack.Said()
			return true
		}
		e.out.Starve()
		return false
	}
	t.received.ack.Said()
	e.stats.AcksOut++
	t.sealControl()
	return true
}

// receiveLimit is the first SEND number the peer may not use yet.
func (c *conn) receiveLimit() uint32 {
	switch qp := c.qp; {
	case qp == nil:
		return c.receives.Told()
	case qp.srq == nil:
		return c.receives.Limit(qp.rq.waiting())
	default:
		return c.receives.SharedLimit(qp.rq.waiting(), qp.srq.free.Load())
	}
}

// runsShort says whether the peer is to hear of a new limit without being asked. A poster sees that the peer has none left.
func (c *conn) runsShort() bool {
	c.qp.rq.starved.Store(c.receives.Left() <= 0)
	return c.receives.Short(c.receiveLimit())
}

// checkReceiveLimit tells the peer about new receives when it is running short.
func (r *receivedState) checkReceiveLimit() {
	if r.conn.runsShort() {
		r.ackNow()
	}
}
