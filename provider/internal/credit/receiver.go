package credit

import (
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Receiver is what the receiving side of a connection has to say of its receives: how many SENDs the peer may begin, and what of the request space is
// taken back because there was none (PROTOCOL §3.6, §9.4).
type Receiver struct {
	Wait     Wait
	next     uint32 // number of the SEND being received
	told     uint32 // limit last told
	promised uint32 // highest limit that the handshake told

	// What came for place and beyond in packets up to upTo does not count, although it may have been acknowledged. That goes with every
	// acknowledgement until the peer has it.
	upTo  uint32 // low bits
	back  bool   // the peer has to hear of it
	place space.Place
}

// Next is the number of the SEND being received.
func (r *Receiver) Next() uint32 { return r.next }

// Took notes that a SEND was received whole.
func (r *Receiver) Took() { r.next++ }

// Limit is the first SEND number the peer may not use yet, with so many receives in the queue pair's own queue: one for each.
func (r *Receiver) Limit(own uint32) uint32 { return r.next + own }

// SharedLimit is Limit with a shared queue of so many free receives. What is in it is told to everybody, and at least one, so that a peer may always
// try; RNR takes it back.
func (r *Receiver) SharedLimit(own, free uint32) uint32 {
	if r.Wait.State() == Starved {
		return r.next
	}
	limit := r.next + max(own+free, 1)
	if int32(limit-r.told) < 0 {
		return r.told
	}
	return limit
}

// Left is how many SENDs the peer knows that it may still begin. It may be less than none.
func (r *Receiver) Left() int32 { return int32(r.told - r.next) }

// Short says whether the peer is to hear of this limit without being asked: at once when it has none left, and when
// what it does not know of is as much as what it has left. A fraction of the queue's depth would not do: a queue that its
// application keeps less than half full made every SEND cost an ACK.
func (r *Receiver) Short(limit uint32) bool {
	left := r.Left()
	return limit != r.told && (left <= 0 || int32(limit-r.told) >= left)
}

// Worth says whether a packet that leaves anyway is to tell of this limit: when what the peer does not know of is half of what it has left. So it hears of it in
// answers to what it sends, before it is short.
func (r *Receiver) Worth(limit uint32) bool {
	return limit != r.told && 2*int32(limit-r.told) >= r.Left()
}

// Told is the limit last told.
func (r *Receiver) Told() uint32 { return r.told }

// Tell notes that the peer is told a limit.
func (r *Receiver) Tell(limit uint32) { r.told = limit }

// Forget notes that the peer may know nothing: what the handshake's messages said is not counted, because they are repeated and it may know any of them.
func (r *Receiver) Forget() { r.told = 0 }

// Promise notes that the handshake tells a limit, and returns it. The application may flush the receives behind it.
func (r *Receiver) Promise(limit uint32) uint32 {
	r.promised = max(r.promised, limit)
	return limit
}

// Allowed says whether the handshake allowed a SEND number.
func (r *Receiver) Allowed(number uint32) bool { return number < r.promised }

// Withdraw takes back every receive that was told and not used.
func (r *Receiver) Withdraw() { r.told = r.next }

// TakeBack takes back what was acknowledged up to a packet and not carried out, from a place in the request space on.
func (r *Receiver) TakeBack(upTo uint64, from space.Place) {
	r.upTo, r.place, r.back = uint32(upTo), from, true
}

// TakenBack says that the peer has to hear of that.
func (r *Receiver) TakenBack() bool { return r.back }

// Known notes that the peer has heard of it. RNR goes on until there is a receive.
func (r *Receiver) Known() { r.back = r.Wait.State() == Starved }

// Report fills in what a report says of it.
func (r *Receiver) Report(m *wire.Report) {
	if !r.back {
		return
	}
	m.Flags, m.UpTo = wire.ReportTakenBack, r.upTo
	m.Message, m.Offset = uint16(r.place.Message()), r.place.Offset()
	if r.Wait.State() == Starved {
		m.Flags |= wire.ReportRNR
	}
}
