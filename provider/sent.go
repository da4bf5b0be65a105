package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// onAck takes in an ACK block whose largest number is largest. All that it names was sent.
func (t *traffic) onAck(a *wire.Ack, largest uint64) {
	if a.Flags&wire.AckCE != 0 {
		t.conn.marks.Echoed()
		t.sent.onMarks(1)
	}
	una := t.sent.una()
	fresh, carried := false, false
	for i := range a.N {
		low, high := largest-uint64(a.Ranges[i].Last), largest-uint64(a.Ranges[i].First)
		t.received.numbers.Confirmed(low, high)
		t.received.confirmTaken(low, high)
		for n := t.sent.packets.Unknown(low, high); n <= high; n = t.sent.packets.Unknown(n+1, high) {
			p, was := t.sent.packets.Acknowledge(n)
			if p == nil {
				continue
			}
			fresh = true
			if n == largest {
				t.sent.measureTrip(p, a)
			}
			carried = t.sent.arrived(n, p, was) || carried
		}
	}
	t.received.numbers.Missed(largest)
	if t.received.takenIn < largest {
		t.received.takenIn = 0
	}
	if fresh && t.sent.loss.Answered(largest) {
		t.sent.armTimer()
	}
	switch {
	case carried:
		t.advance(una)
	case fresh:
		t.sent.settleCopies()
		t.sent.packets.Forget(&t.conn.rtt, t.engine.now, t.sent.waits)
		t.sent.detectLoss()
		if t.hasWork(t.conn.qp.queue()) {
			t.conn.want(wantTurn) // a packet less in flight, although the peer had what was in it
		}
	}
}

// una returns the oldest place of each space that is not known to have arrived.
func (s *sentState) una() (una [wire.NumSpaces]space.Place) {
	for sp := range s.spaces {
		una[sp] = s.spaces[sp].Una()
	}
	return una
}

// measureTrip takes the round trip of the packet with the largest number in an ACK block, without the time that the peer held it.
func (s *sentState) measureTrip(p *recovery.Packet, a *wire.Ack) {
	if a.Delay == wire.AckDelayUnknown {
		return
	}
	trip := turn.Trip{Left: p.At, Held: time.Duration(a.Delay) * wire.AckDelayUnit, Came: s.engine.in.came, Known: s.engine.in.known}
	if p.Kind != recovery.Nothing { // nobody is in a hurry to acknowledge what carried nothing: that goes with the next data
		s.cc.HeldAtEnds(trip.Held + s.engine.now.Sub(trip.Came))
		s.loss.HeldByPeer(trip.Held, s.engine.now)
	}
	s.conn.rtt.Sample(trip.Took())
	if p.Path.Bulk() || !s.bulk.Used(s.engine.now) { // only the queue of the path that most packets take counts
		s.noteDelay(trip, int(p.Size), a.Flags&wire.AckAway != 0)
	}
	s.sample.Trip(trip.Took())
}

// arrived takes in that a transmission arrived, of which was had become before. It reports whether the peer has something by it that it was not known to have.
func (s *sentState) arrived(number uint64, p *recovery.Packet, was recovery.State) (carried bool) {
	if p.Path == recovery.PathLong {
		s.long.Came()
	}
	if p.Path.Bulk() && s.bulk.Came(s.engine.now) {
		s.noteLeft(recovery.PathBulk)
	}
	if was != 0 {
		s.arrivedInVain(number, p, was)
		if was&recovery.Lost != 0 {
			s.cc.Found(p.At)
		}
	}
	if p.Kind == recovery.Nothing {
		return false
	}
	s.conn.ecn.Acknowledged(s.cc.Alone() && s.conn.rtt.Rested(s.packets.Pause(number)))
	s.cc.Arrived()
	if !s.spaces[p.Kind].Arrived(p.From, p.To, int(p.Size)) {
		return false
	}
	s.delivered(int(p.Size))
	return true
}

// arrivedInVain takes in that a packet arrived whose contents were sent again. It may show that time-outs were none.
func (s *sentState) arrivedInVain(number uint64, p *recovery.Packet, was recovery.State) {
	e := s.engine
	e.stats.Duplicates++
	s.conn.ecn.Late(number)
	if !s.loss.InVain(e.now, &s.conn.rtt, number, p.At, was) {
		return
	}
	s.runs.InTime(e.now)
	if p.Path.Bulk() {
		s.bulk.InTime()
	}
	if p.Path != recovery.PathLong {
		s.regainSize(int(p.Size))
	}
	if s.cc.Undo() {
		e.stats.SpuriousTimeouts++
		e.flight.Note(e.now, FlightSpurious, s.conn.identity.id, 0, 0)
	}
}

// acknowledgeBelow takes in that everything of a space below end arrived, which the peer said otherwise than by packet numbers.
func (t *traffic) acknowledgeBelow(kind wire.Space, end space.Place) {
	una := t.sent.una()
	if t.sent.spaces[kind].Arrived(una[kind], end, 0) {
		t.advance(una)
	}
}

// advance draws conclusions from what arrived since the oldest places that had not were una.
func (t *traffic) advance(una [wire.NumSpaces]space.Place) {
	progress := false
	for sp := range t.sent.spaces {
		if t.sent.spaces[sp].Una() != una[sp] {
			progress = true
			t.ackedTo(wire.Space(sp))
		}
	}
	if t.conn.faulted != faultNone {
		return // that was its end
	}
	t.sent.settleCopies()
	t.sent.packets.Forget(&t.conn.rtt, t.engine.now, t.sent.waits)
	if progress {
		t.sent.loss.Progress(t.engine.now)
		t.conn.ecn.Progress(t.engine.now)
		t.conn.rtt.Progress()
	}
	if progress || t.conn.rtt.Calm() { // the peer is back: what it still misses need not wait for as long as it was away
		t.sent.armTimer()
	}
	t.sent.detectLoss()
	if !progress || t.hasWork(t.conn.qp.queue()) {
		t.conn.want(wantTurn) // a packet less in flight is room for another one
	}
}

// settleCopies ends the wait for packets in flight when the peer has everything: what they carried arrived in others, and no timer runs for
// them.
func (s *sentState) settleCopies() {
	if s.packets.PacketsInFlight() == 0 || s.spaces[0].Outstanding() || s.spaces[1].Outstanding() {
		return
	}
	for n := s.packets.Oldest(); n < s.packets.Next(); n++ {
		if p := s.packets.Packet(n); p.InFlight() {
			s.packets.Mark(p, recovery.Again)
		}
	}
}

// ackedTo does what follows when more of a space has arrived.
func (t *traffic) ackedTo(kind wire.Space) {
	if kind == wire.RequestSpace {
		t.sent.paused = false // the peer took what it had dropped
		if t.requests.ask.Waiting() {
			t.requests.ask.Restart(t.engine.now) // what went before was still under way: no fault of the peer's
			t.requests.faultAhead(&t.conn.qp.sq, t.access(), t.engine.now)
		}
		t.completeRequests()
		return
	}
	t.served.Acknowledge(t.sent.spaces[kind].Una())
	if t.served.TermSent() && !t.sent.spaces[kind].Outstanding() {
		t.conn.faulted = faultTold
	}
}

// waits reports whether contents of a packet wait to be sent again.
func (s *sentState) waits(p *recovery.Packet) bool {
	if p.Kind == recovery.Nothing {
		return false
	}
	_, waits := s.spaces[p.Kind].MissingIn(p.From, p.To)
	return waits
}

// makeRoom sees to it that another transmission can be remembered. When so many others followed the oldest one that nothing was learnt
// of, it counts as lost.
func (s *sentState) makeRoom() {
	for s.packets.Full() {
		if p := s.packets.Packet(s.packets.Floor()); p.InFlight() || p.State&recovery.Acked == 0 && s.waits(p) {
			if s.growNumbers() {
				return
			}
			if p.InFlight() {
				s.markLost(p)
			}
		}
		s.packets.Drop()
	}
}

// The functions below bound the memory of sent packets' records. Records of contents in flight are caused by this side. The others are answers and
// acknowledgements, which a peer makes this side send and need not acknowledge. They have a bound for each connection, and are charged to
// the peer's source.

// A connection has records for shortNumbers packets, and four times as many whenever it needs more, up to maxNumbers: enough for 10 Gb/s
// over 50 ms with packets of 1500 bytes. While fewer than a quarter of the packets have contents, it has at most maxEmptyNumbers records:
// enough to acknowledge each eighth packet of 10 Gb/s over 40 ms.
const (
	shortNumbers    = 64
	maxEmptyNumbers = 1 << 12
	maxNumbers      = wire.MaxNumbers
)

// numberSizes is how many sizes there are from shortNumbers, which is none of them, to maxNumbers.
const numberSizes = 5

// growNumbers makes room for more transmissions. It reports false when the connection has as many as it may.
func (s *sentState) growNumbers() bool {
	have := len(s.packets.Ring())
	size, empty := 4*have, 4*s.packets.PacketsInFlight() < have
	if size > maxNumbers || empty && (size > maxEmptyNumbers || !s.engine.store.Charge(s.account, (size-have)*recovery.PacketBytes, s.charged)) {
		return false
	}
	if empty {
		s.charged += (size - have) * recovery.PacketBytes
	}
	s.engine.pools.putNumbers(s.packets.Resize(s.engine.pools.getNumbers(size)))
	return true
}

// trimNumbers gives back what four times as many transmissions as are remembered would not need.
func (s *sentState) trimNumbers() {
	have, size := len(s.packets.Ring()), shortNumbers
	for size < 4*s.packets.Remembered() {
		size *= 4
	}
	if size >= have {
		return
	}
	ring := s.ring[:]
	if size > shortNumbers {
		ring = s.engine.pools.getNumbers(size)
	}
	s.engine.pools.putNumbers(s.packets.Resize(ring))
	kept := min(s.charged, (size-shortNumbers)*recovery.PacketBytes)
	s.engine.store.Refund(s.account, s.charged-kept)
	s.charged = kept
}

// openAccount charges what the connection makes its engine keep to the account of the peer's source there.
func (t *traffic) openAccount() {
	t.sent.account = t.engine.store.Open(guard.SourceOf(t.conn.identity.remote.IP))
	t.engine.store.Refund(t.sent.account, -t.sent.charged)
	for sp := range t.received.spaces {
		t.received.spaces[sp].gaps.Begin(t.sent.account)
	}
}

// closeAccount ends that. No packet waits behind a gap.
func (t *traffic) closeAccount() {
	t.engine.store.Refund(t.sent.account, t.sent.charged)
	t.engine.store.Close(t.sent.account)
	t.sent.account = nil
}
