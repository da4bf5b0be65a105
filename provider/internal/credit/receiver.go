package credit

import (
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Receiver is the receiver's state about receives: how many SENDs the peer may begin, and which part of the request space is taken back for
// lack of a receive (PROTOCOL §3.6, §9.4).
type Receiver struct {
	Wait     Wait
	next     uint32 // number of the SEND being received
	told     uint32 // limit last told
	promised uint32 // highest limit that the handshake told

	// Contents for place and beyond in packets up to upTo do not count, although they may have been acknowledged. Every acknowledgement
	// says so until the peer has received it.
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

// SharedLimit is Limit for a shared queue with so many free receives. All of them are offered to every peer, and at least one, so that a
// peer may always try. RNR revokes the offer.
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

// Short says whether the peer is to be told of this limit without being asked: at once if it has no receives left, and if it does not know
// of as many receives as it has left. A fraction of the queue's depth would not do, because a queue kept less than half full would then
// cost an ACK for every SEND.
func (r *Receiver) Short(limit uint32) bool {
	left := r.Left()
	return limit != r.told && (left <= 0 || int32(limit-r.told) >= left)
}

// Worth says whether a packet that leaves anyway is to report this limit: if the peer does not know of half as many receives as it has
// left. The peer then learns of it in answers, before it runs short.
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
