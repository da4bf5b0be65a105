package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// onAck takes in an ACK block whose largest number is largest. All that it names was sent.
func (r *repeater) onAck(a *wire.Ack, largest uint64) {
	if a.Flags&wire.AckCE != 0 {
		r.marks.Echoed()
		r.onMarks(1)
	}
	una := r.una()
	fresh, carried := false, false
	for i := range a.N {
		low, high := largest-uint64(a.Ranges[i].Last), largest-uint64(a.Ranges[i].First)
		r.received.Confirmed(low, high)
		r.confirmTaken(low, high)
		for n := r.sent.Unknown(low, high); n <= high; n = r.sent.Unknown(n+1, high) {
			p, was := r.sent.Acknowledge(n)
			if p == nil {
				continue
			}
			fresh = true
			if n == largest {
				r.measureTrip(p, a)
			}
			carried = r.arrived(n, p, was) || carried
		}
	}
	r.received.Missed(largest)
	if r.takenIn < largest {
		r.takenIn = 0
	}
	if fresh && !r.sent.BulkIsSilent() && r.loss.Answered(largest) { // a time-out is what leaves a lane
		r.armTimer()
	}
	switch {
	case carried:
		r.advance(una)
	case fresh:
		r.settleCopies()
		r.sent.Forget(&r.rtt, r.now)
		r.detectLoss()
		if r.hasWork(r.qp.queue()) {
			r.want(wantTurn) // a packet less in flight, although the peer had what was in it
		}
	}
}

// una returns the oldest place of each space that is not known to have arrived.
func (t *transmitted) una() (una [wire.NumSpaces]space.Place) {
	for sp := range t.tx {
		una[sp] = t.tx[sp].Una()
	}
	return una
}

// measureTrip takes the round trip of the packet with the largest number in an ACK block, without the time that the peer held it.
func (t *transmitted) measureTrip(p *recovery.Packet, a *wire.Ack) {
	if a.Delay == wire.AckDelayUnknown {
		return
	}
	trip := turn.Trip{Left: p.At, Held: time.Duration(a.Delay) * wire.AckDelayUnit, Came: t.in.came, Known: t.in.known}
	if p.Kind != recovery.Nothing { // nobody is in a hurry to acknowledge what carried nothing: that goes with the next data
		t.cc.HeldAtEnds(trip.Held + t.now.Sub(trip.Came))
		t.loss.HeldByPeer(trip.Held, t.now)
	}
	t.rtt.Sample(trip.Took())
	if p.Bulk || !t.bulk.Used(t.now) { // only the queue of the path that most packets take counts
		t.noteDelay(trip, int(p.Size), a.Flags&wire.AckAway != 0)
	}
	t.sample.Trip(trip.Took())
}

// arrived takes in that a transmission arrived, of which was had become before. It reports whether the peer has something by it that it was not known to have.
func (t *transmitted) arrived(number uint64, p *recovery.Packet, was recovery.State) (carried bool) {
	if p.Bulk && t.bulk.Came(t.now) {
		t.noteBulkLeft()
	}
	if was != 0 {
		t.arrivedInVain(number, p, was)
		if was&recovery.Lost != 0 {
			t.cc.Found(p.At)
		}
	}
	if p.Kind == recovery.Nothing {
		return false
	}
	t.ecn.Acknowledged(t.cc.Alone())
	t.cc.Arrived()
	if !t.tx[p.Kind].Arrived(p.From, p.To, int(p.Size)) {
		return false
	}
	t.delivered(int(p.Size))
	return true
}

// arrivedInVain takes in that a packet arrived whose contents were sent again. It may show that time-outs were none.
func (t *transmitted) arrivedInVain(number uint64, p *recovery.Packet, was recovery.State) {
	e := t.environment
	e.stats.Duplicates++
	t.ecn.Late(number)
	if !t.loss.InVain(e.now, &t.rtt, number, p.At, was) {
		return
	}
	t.runs.InTime(e.now)
	if p.Bulk {
		t.bulk.InTime()
	}
	t.regainSize(int(p.Size))
	if t.cc.Undo() {
		e.stats.SpuriousTimeouts++
		e.flight.Note(e.now, FlightSpurious, t.identity.id, 0, 0)
	}
}

// acknowledgeBelow takes in that everything of a space below end arrived, which the peer said otherwise than by packet numbers.
func (r *repeater) acknowledgeBelow(kind wire.Space, end space.Place) {
	una := r.una()
	if r.tx[kind].Arrived(una[kind], end, 0) {
		r.advance(una)
	}
}

// advance draws conclusions from what arrived since the oldest places that had not were una.
func (r *repeater) advance(una [wire.NumSpaces]space.Place) {
	progress := false
	for sp := range r.tx {
		if r.tx[sp].Una() != una[sp] {
			progress = true
			r.ackedTo(wire.Space(sp))
		}
	}
	if r.faulted != faultNone {
		return // that was its end
	}
	r.settleCopies()
	r.sent.Forget(&r.rtt, r.now)
	if progress {
		r.loss.Progress(r.now)
		r.ecn.Progress(r.now)
		r.rtt.Progress()
	}
	if progress || r.rtt.Calm() { // the peer is back: what it still misses need not wait for as long as it was away
		r.armTimer()
	}
	r.detectLoss()
	if !progress || r.hasWork(r.qp.queue()) {
		r.want(wantTurn) // a packet less in flight is room for another one
	}
}

// settleCopies ends the wait for packets in flight when the peer has everything: what they carried arrived in others, and no timer runs for
// them.
func (t *transmitted) settleCopies() {
	if t.sent.PacketsInFlight() == 0 || t.tx[0].Outstanding() || t.tx[1].Outstanding() {
		return
	}
	for n := t.sent.Oldest(); n < t.sent.Next(); n++ {
		if p := t.sent.Packet(n); p.InFlight() {
			t.sent.Mark(p, recovery.Again)
		}
	}
}

// ackedTo does what follows when more of a space has arrived.
func (r *repeater) ackedTo(kind wire.Space) {
	if kind == wire.RequestSpace {
		r.paused = false // the peer took what it had dropped
		if r.ask.Waiting() {
			r.ask.Restart(r.now) // what went before was still under way: no fault of the peer's
			r.faultAhead(&r.qp.sq, r.access(), r.now)
		}
		r.completeRequests()
		return
	}
	r.served.Acknowledge(r.tx[kind].Una())
	if r.served.TermSent() && !r.tx[kind].Outstanding() {
		r.faulted = faultTold
	}
}

// makeRoom sees to it that another transmission can be remembered. When so many others followed the oldest one that nothing was learnt
// of, it counts as lost.
func (t *transmitted) makeRoom() {
	for t.sent.Full() {
		if p := t.sent.Packet(t.sent.Floor()); p.InFlight() {
			if t.growNumbers() {
				return
			}
			t.markLost(p)
		}
		t.sent.Drop()
	}
}
