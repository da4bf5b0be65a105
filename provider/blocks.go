package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
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
	overtaken bool       // a packet with a larger number was heard before
	came      clock.Time // to this machine where known says so; else in this turn
	known     bool
	ack       wire.Ack
	report    wire.Report
}

// takeBack takes back what was acknowledged of the request space and not carried out.
func (r *receiving) takeBack() {
	r.receives.TakeBack(r.received.Largest(), r.rx[wire.RequestSpace].next)
	r.takenIn = 0
}

// confirmTaken notes that our packets from low to high arrived.
func (r *receiving) confirmTaken(low, high uint64) {
	if r.takenIn != 0 && low <= r.takenIn && r.takenIn <= high {
		r.takenIn = 0
		r.receives.Known()
	}
}

// putBlocks writes the blocks that are due into the packet that was just begun. The ACK block has at most most ranges. A REPORT block
// follows if acknowledged data were dropped (TAKENBACK), or if the peer has few receives left. If always is true, an ACK block is written
// even if it says nothing new. If report is true, a REPORT block is written too.
func (r *receiving) putBlocks(most int, always, report bool) {
	e := r.environment
	out, a := &e.out, &e.ackMsg
	if !always && !r.received.Untold() && !r.marks.Owed() && !r.ack.Explains() {
		return
	}
	report = report || !r.phase.Attempt() && (r.ack.Explains() || r.receives.TakenBack() || r.receives.Worth(r.receiveLimit()))
	if r.received.Tell(a, out.Now(e.now), most) {
		a.Flags = 0
		if r.marks.Owed() && !report {
			a.Flags |= wire.AckCE
		}
		if r.received.Late() {
			a.Flags |= wire.AckAway
		}
		out.PutAck(a)
	}
	if report {
		e.reportMsg = wire.Report{ReceiveLimit: r.receiveLimit(), Load: e.received.Load(), CECount: r.marks.Count()}
		r.receives.Report(&e.reportMsg)
		out.PutReport(&e.reportMsg)
	}
}

// blocksLeft notes that the packet with this number carries the blocks that were put into it.
func (r *receiving) blocksLeft(number uint64) {
	out := &r.out
	if out.Flags()&(wire.FlagAck|wire.FlagReport) == 0 {
		return
	}
	if out.Flags()&wire.FlagAck != 0 {
		r.received.Told(number, out.Told())
	}
	if out.Flags()&wire.FlagReport != 0 {
		r.receives.Tell(r.reportMsg.ReceiveLimit)
		if r.receives.TakenBack() && r.takenIn == 0 {
			r.takenIn = number
		}
	}
	r.marks.Told()
}

// takeBlocks handles the blocks of the current packet. It returns false if they name packets that were never sent: the packet is forged
// or corrupt and must not be used.
func (r *repeater) takeBlocks(flags wire.Flags) bool {
	in := &r.in
	largest := uint64(0)
	if flags&wire.FlagAck != 0 {
		var ok bool
		if largest, ok = r.sent.Resolve(&in.ack); !ok {
			return false
		}
	}
	report := flags&wire.FlagReport != 0 && r.phase == phaseOpen
	if report && in.report.Flags&wire.ReportTakenBack != 0 && !r.onTakenBack(&in.report) {
		return false
	}
	if flags&wire.FlagAck != 0 {
		r.onAck(&in.ack, largest)
	}
	if report && r.faulted == faultNone { // it may have acknowledged the end
		r.onReport(&in.report)
	}
	if r.ecn.Everything() {
		r.cc.Unmark(r.rtt.Smoothed)
		r.want(wantTurn)
	}
	r.noteECN()
	return true
}

// onTakenBack records what the peer took back. It reports false when that was never sent.
func (r *repeater) onTakenBack(m *wire.Report) bool {
	upTo, ok := r.sent.Expand(m.UpTo)
	if !ok {
		return false
	}
	sp := &r.tx[wire.RequestSpace]
	place, ok := r.place(r.qp.queue(), sp, m.Message, m.Offset)
	if !ok {
		return false
	}
	if upTo <= r.refusedTo {
		return true // it is told until we are known to have heard it, and what went again since does count
	}
	first := max(r.sent.Floor(), r.refusedTo+1) // what left before was taken back before, as far as it was not carried out since
	r.refusedTo = upTo
	sp.TakenBack(place, func(from, to space.Place) {
		if r.requesting() {
			r.qp.sq.keepLocals(sp, from, to)
		}
	})
	for n := first; n <= upTo; n++ {
		if p := r.sent.Packet(n); p.Kind == recovery.Requests && place.Before(p.To) {
			r.refused(p)
			r.sent.Void(p) // no acknowledgement of it counts
		}
	}
	if sp.HasAgain() {
		r.want(wantTurn)
	}
	return true
}

// refused records that what a transmission carried is not at the peer, without a loss.
func (t *transmitted) refused(p *recovery.Packet) {
	t.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses, Refused: true})
}

// onReport takes in a REPORT block.
func (r *repeater) onReport(m *wire.Report) {
	overtaken := r.in.overtaken
	switch {
	case m.Flags&wire.ReportRNR != 0:
		if !overtaken {
			r.pause(m)
		}
	case credit.Raise(r.requestNumbers.sendLimit, r.requestNumbers.nextSend, m.ReceiveLimit) != r.requestNumbers.sendLimit:
		r.requestNumbers.sendLimit = m.ReceiveLimit
		r.want(wantTurn)
	}
	if r.paused && m.Flags&wire.ReportRNR == 0 && !overtaken {
		r.resume()
	}
	r.cc.Load(r.now, m.Load, r.rtt.Smoothed)
	r.want(wantVerdict)
	if before := r.marks.Peer(); r.ecn.Reported(m.CECount, before, overtaken) {
		r.onMarks(r.marks.Reported(m.CECount))
	}
}

// keep records that the contents of the current packet are processed for good, so that its number may be acknowledged.
func (r *receiving) keep() {
	r.received.Add(r.in.number, r.in.came, !r.in.known && r.turns.Blurs(r.rtt.Min))
}
