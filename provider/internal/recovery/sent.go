package recovery

import (
	"fmt"
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Kind is what a transmission carried.
type Kind uint8

// Kinds of transmissions. The first two are the spaces of package wire.
const (
	Requests  = Kind(wire.RequestSpace)
	Responses = Kind(wire.ResponseSpace)
	Nothing   = Kind(wire.NumSpaces) // nothing to retransmit: acknowledgements, control messages, or void contents
)

// State is the state of a transmission.
type State uint8

// States of a transmission. They are bits.
const (
	Acked State = 1 << iota
	Lost        // declared lost: its contents are retransmitted
	Again       // a timer retransmitted its contents as a probe
)

// Path is where a transmission was sent.
type Path uint8

// Paths of transmissions.
const (
	PathND   Path = iota // to the ND port
	PathBulk             // on the bulk path
	PathLong             // on the bulk path, as a long packet (PROTOCOL §11.2)
)

// Bulk reports whether it is the bulk path.
func (p Path) Bulk() bool { return p != PathND }

// PacketBytes is the size of a Packet in bytes.
const PacketBytes = 32

// Packet is the record of a transmission.
type Packet struct {
	At       clock.Time  // when it was sent
	From, To space.Place // contents, as stream offsets
	Size     uint16      // size of the ND packet
	Kind     Kind
	State    State
	Losses   uint8  // how often packets with the same contents were declared lost before
	Path     Path   // where it was sent; the packets of two paths are not in order (PROTOCOL §11.1)
	run      uint16 // if it arrived: at least this many transmissions from this one on arrived
}

// InFlight reports whether it is unknown whether a packet with contents arrived.
func (p *Packet) InFlight() bool { return !p.settled() }

// settled reports whether the transmission is not in flight.
func (p *Packet) settled() bool { return p.State != 0 || p.Kind == Nothing }

// Sent records the newest transmissions of one direction of a connection: a ring in the order of packet numbers, which is sending
// order. The caller provides its memory, whose length is a power of two.
type Sent struct {
	first    uint64        // number of the connection's first transmission
	next     uint64        // number of the next transmission
	floor    uint64        // lowest recorded number
	oldest   [lanes]uint64 // for each path: all lower numbers are settled; at least floor
	largest  [lanes]uint64 // for each path: largest acknowledged number plus one; zero if none
	inFlight int           // size of the packets in flight
	packets  int           // number of packets in flight
	lone     uint64        // number of the newest packet that left while no other was in flight, plus one; zero if none
	pause    time.Duration // time between the previous packet with contents and packet lone
	left     clock.Time    // when the newest packet with contents left
	ring     []Packet
}

// lanes is the number of paths: the ND port and the bulk path. Packets of one path are in order.
const lanes = 2

// lane returns the index of the packet's path.
func (p *Packet) lane() int {
	if p.Path.Bulk() {
		return 1
	}
	return 0
}

// Start begins with number next. first is the number of the connection's first transmission.
func (s *Sent) Start(first, next uint64, ring []Packet) {
	*s = Sent{first: first, next: next, floor: next, oldest: [lanes]uint64{next, next}, ring: ring}
}

// First returns the number of the connection's first transmission.
func (s *Sent) First() uint64 { return s.first }

// Next returns the number of the next transmission.
func (s *Sent) Next() uint64 { return s.next }

// Floor returns the lowest recorded number, or Next if none is.
func (s *Sent) Floor() uint64 { return s.floor }

// Passed returns the number below which transmissions were overtaken by an acknowledged one, and so may be declared lost (RFC 8985
// §6.2). It is zero if nothing was acknowledged.
func (s *Sent) Passed() uint64 { return max(s.largest[0], s.largest[1], 1) - 1 }

// Newest finds the packet whose number ends with low among packets sent after the last acknowledged one. ok is false if there is
// none.
func (s *Sent) Newest(low uint32) (number uint64, ok bool) {
	back := uint64(uint32(s.next) - low)
	if back == 0 || back > s.next {
		return 0, false
	}
	number = s.next - back
	return number, number >= max(s.largest[0], s.largest[1], s.floor)
}

// overtaken returns the number of the oldest packet in flight on a path. ok means that a later packet was acknowledged; within,
// that a later packet of the same path was.
func (s *Sent) overtaken(lane int) (number uint64, within, ok bool) {
	end := max(s.largest[0], s.largest[1])
	n := s.oldestOf(lane, end)
	return n, n+1 < s.largest[lane], n+1 < end
}

// oldestOf returns the number of the oldest packet in flight on a path, or end if there is none below.
func (s *Sent) oldestOf(lane int, end uint64) uint64 {
	at := max(s.oldest[lane], s.floor)
	for at < end {
		if p := s.Packet(at); !p.settled() && p.lane() == lane {
			break
		}
		at++
	}
	s.oldest[lane] = at
	return at
}

// Packet returns the record of a transmission, from Floor to Next-1.
func (s *Sent) Packet(number uint64) *Packet { return &s.ring[number&uint64(len(s.ring)-1)] }

// Full reports whether Drop or Resize is needed before the next Add.
func (s *Sent) Full() bool { return s.next-s.floor == uint64(len(s.ring)) }

// Drop removes the record with the lowest number.
func (s *Sent) Drop() {
	s.floor++
}

// learntAfter is the number of round trips for which the record of a lost packet is kept, to detect that it was only late.
const learntAfter = 16

// learnt reports whether the record is not needed any more: the packet arrived, carried nothing, or was declared lost long ago.
func (p *Packet) learnt(r *RTT, now clock.Time) bool {
	return p.State&Acked != 0 || p.Kind == Nothing || p.State != 0 && now.Sub(p.At) > learntAfter*r.Smoothed
}

// Forget removes the oldest records that are not needed any more. waits reports whether contents of a packet wait to be sent again. Then a
// late acknowledgement of the packet still counts, because this side may be unable to send the contents.
func (s *Sent) Forget(r *RTT, now clock.Time, waits func(*Packet) bool) {
	for s.floor < s.Passed() {
		if p := s.Packet(s.floor); !p.learnt(r, now) || p.State&Acked == 0 && waits(p) {
			return
		}
		s.Drop()
	}
}

// Remembered returns the number of records.
func (s *Sent) Remembered() int { return int(s.next - s.floor) }

// Resize moves the records to another ring, and returns the old ring.
func (s *Sent) Resize(ring []Packet) (old []Packet) {
	old = s.ring
	s.ring = ring
	for n := s.floor; n != s.next; n++ {
		*s.Packet(n) = old[n&uint64(len(old)-1)]
	}
	return old
}

// Add records the next transmission and returns its number. Full must be false.
func (s *Sent) Add(p Packet) (number uint64) {
	number = s.next
	s.next++
	*s.Packet(number) = p
	if !p.settled() {
		if s.packets == 0 {
			s.lone, s.pause = s.next, p.At.Sub(s.left)
		}
		s.left = p.At
		s.inFlight += int(p.Size)
		s.packets++
	}
	return number
}

// Pause returns how long no packet with contents had left when a packet left. It returns zero if another packet was in flight then.
func (s *Sent) Pause(number uint64) time.Duration {
	if number+1 != s.lone {
		return 0
	}
	return s.pause
}

// InFlight returns the size of all packets in flight: they have contents, and neither arrived nor were declared lost.
func (s *Sent) InFlight() int { return s.inFlight }

// PacketsInFlight returns their number.
func (s *Sent) PacketsInFlight() int { return s.packets }

// Oldest returns the number of the oldest packet in flight, or Next if there is none.
func (s *Sent) Oldest() uint64 {
	at := s.next
	for lane := range lanes {
		at = min(at, s.oldestOf(lane, at))
	}
	return at
}

// settle removes a packet from the packets in flight, before its state or kind changes.
func (s *Sent) settle(p *Packet) {
	if !p.settled() {
		s.inFlight -= int(p.Size)
		s.packets--
	}
}

// Mark sets the state of a packet: it is declared lost, or a timer retransmitted its contents.
func (s *Sent) Mark(p *Packet, state State) {
	s.settle(p)
	p.State |= state
}

// Void records that the contents of a transmission do not count any more.
func (s *Sent) Void(p *Packet) {
	s.settle(p)
	p.Kind = Nothing
}

// VoidAll calls Void for all transmissions of a kind.
func (s *Sent) VoidAll(k Kind) {
	for n := s.floor; n != s.next; n++ {
		if p := s.Packet(n); p.Kind == k {
			s.Void(p)
		}
	}
}

// Resolve returns the largest number of an ACK block. It returns false if the number was never sent.
func (s *Sent) Resolve(a *wire.Ack) (largest uint64, ok bool) {
	largest, ok = s.Expand(a.Largest)
	return largest, ok && largest-s.first >= uint64(a.Ranges[a.N-1].Last)
}

// Expand returns the sent number with these low 32 bits. It returns false if none of the last 2^31 numbers has them.
func (s *Sent) Expand(low uint32) (number uint64, ok bool) {
	behind := uint32(s.next) - low
	if behind == 0 || behind > 1<<31 || uint64(behind) > s.next-s.first {
		return 0, false
	}
	return s.next - uint64(behind), true
}

// Unknown returns the lowest number from low to high that is recorded and not known to have arrived, or a number above high if
// there is none. The caller acknowledges it next. Each packet that arrived leads past the packets behind it, so a peer that repeats
// the same ranges in every ACK does not cost a walk.
func (s *Sent) Unknown(low, high uint64) uint64 {
	n := max(low, s.floor)
	for n <= high {
		p := s.Packet(n)
		if p.State&Acked == 0 {
			break
		}
		next := n + max(uint64(p.run), 1)
		p.run = uint16(min(max(high+1, next)-n, math.MaxUint16))
		n = next
	}
	return n
}

// Acknowledge records that a transmission arrived, and returns its previous state. It returns nil if this was known, or if there is
// no record.
func (s *Sent) Acknowledge(number uint64) (p *Packet, was State) {
	if number < s.floor {
		return nil, 0
	}
	p = s.Packet(number)
	if p.State&Acked != 0 {
		return nil, 0
	}
	was = p.State
	s.Mark(p, Acked)
	lane := p.lane()
	s.largest[lane] = max(s.largest[lane], number+1)
	return p, was
}

// Violation returns the invariant that is violated, or an empty string.
func (s *Sent) Violation() string {
	bytes, packets := 0, 0
	for n := s.floor; n != s.next; n++ {
		if p := s.Packet(n); !p.settled() {
			bytes += int(p.Size)
			packets++
		}
	}
	if bytes != s.inFlight || packets != s.packets {
		return fmt.Sprintf("%d packets of %d bytes are in flight, %d of %d are counted", packets, bytes, s.packets, s.inFlight)
	}
	return ""
}

// Ring returns the memory of the records.
func (s *Sent) Ring() []Packet { return s.ring }
