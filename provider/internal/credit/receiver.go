package credit

import (
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Receiver is the receiver's state about receives (PROTOCOL §3.6, §9.4). It knows how many SENDs the peer may begin, and which part
// of the request space the receiver took back because a receive was missing.
type Receiver struct {
	Wait     Wait
	next     uint32 // number of the SEND being received
	told     uint32 // limit that the peer was last told
	promised uint32 // highest limit in a handshake message

	// Contents at or after place, in packets up to upTo, do not count as received, although they may have been acknowledged. Every
	// acknowledgement says so until the peer confirms it.
	upTo  uint32 // low bits of the packet number
	back  bool   // the peer does not know yet
	began bool   // a handshake message had a limit
	place space.Place
}

// Next returns the number of the SEND being received.
func (r *Receiver) Next() uint32 { return r.next }

// Took records that a SEND was received completely.
func (r *Receiver) Took() { r.next++ }

// Limit returns the number of the first SEND that the peer may not send yet. own is the number of receives in the queue pair's own
// queue.
func (r *Receiver) Limit(own uint32) uint32 { return r.next + own }

// SharedLimit is Limit for a shared receive queue with free receives. Each peer is offered all of them, and at least one, so that
// it may always try. RNR revokes the offer.
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

// Left returns how many more SENDs the peer knows that it may begin. It is negative after receives were withdrawn.
func (r *Receiver) Left() int32 { return int32(r.told - r.next) }

// Short reports whether to tell the peer this limit without being asked. It is told if it has no receives left, or if the increase
// is at least as large as the rest. The rule does not use a fraction of the queue's depth: a queue kept less than half full would
// then cost an ACK for every SEND.
func (r *Receiver) Short(limit uint32) bool {
	left := r.Left()
	return limit != r.told && (left <= 0 || int32(limit-r.told) >= left)
}

// Worth reports whether a packet that leaves for another reason should carry this limit. It should if the increase is at least half
// of what the peer has left, so that the peer learns of it before it runs out.
func (r *Receiver) Worth(limit uint32) bool {
	return limit != r.told && 2*int32(limit-r.told) >= r.Left()
}

// Told returns the limit that the peer was last told.
func (r *Receiver) Told() uint32 { return r.told }

// Tell records that the peer is told a limit.
func (r *Receiver) Tell(limit uint32) { r.told = limit }

// Promise records the limit in a handshake message, and returns it. Handshake messages are repeated, and the peer may have seen any of
// them: it was told the lowest of their limits, and may use the highest. The application may later flush the receives that a limit counts.
func (r *Receiver) Promise(limit uint32) uint32 {
	r.promised = max(r.promised, limit)
	if !r.began || int32(limit-r.told) < 0 {
		r.told, r.began = limit, true
	}
	return limit
}

// Allowed reports whether a handshake message allowed this SEND.
func (r *Receiver) Allowed(number uint32) bool { return number < r.promised }

// Withdraw revokes every receive that the peer was told of and has not used.
func (r *Receiver) Withdraw() { r.told = r.next }

// TakeBack takes back contents at or after from, in packets up to upTo: they were acknowledged but not executed.
func (r *Receiver) TakeBack(upTo uint64, from space.Place) {
	r.upTo, r.place, r.back = uint32(upTo), from, true
}

// TakenBack reports whether the peer must still be told of TakeBack.
func (r *Receiver) TakenBack() bool { return r.back }

// Known records that the peer knows of TakeBack. RNR is repeated until there is a receive.
func (r *Receiver) Known() { r.back = r.Wait.State() == Starved }

// Report writes TakeBack and RNR into a REPORT block.
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
