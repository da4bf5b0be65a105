package recovery

import (
	"fmt"
	"math"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Kind says what a transmission carried.
type Kind uint8

// The kinds of transmissions. The first two are the spaces of wire.
const (
	Requests  = Kind(wire.RequestSpace)
	Responses = Kind(wire.ResponseSpace)
	Nothing   = Kind(wire.NumSpaces) // nothing that is sent again: acknowledgements and control messages, or what does not count any more
)

// State is what became of a transmission.
type State uint8

// States of a transmission. They add up.
const (
	Acked State = 1 << iota
	Lost        // taken for lost: what it carried goes again under another number
	Again       // a timer sent again what it carried, to hear something
)

// PacketBytes is the memory of a Packet.
const PacketBytes = 32

// Packet is what is remembered of a transmission.
type Packet struct {
	At       clock.Time  // when it left
	From, To space.Place // what it carried, in terms of the sending side
	Size     uint16      // bytes of ND packet
	Kind     Kind
	State    State
	Losses   uint8  // times that packets with the same contents were taken for lost before
	Bulk     bool   // it left by the bulk lane, where packets are not in order with others (PROTOCOL §11.1)
	run      uint16 // once it arrived: at least so many transmissions from this one on arrived
}

// InFlight says whether the fate of a packet with contents is still unknown.
func (p *Packet) InFlight() bool { return !p.settled() }

// settled says that nothing has to be found out about a transmission.
func (p *Packet) settled() bool { return p.State != 0 || p.Kind == Nothing }

// Sent are the newest transmissions of one direction of a connection: a ring in the order of packet numbers, which is the order in time.
// The caller provides its memory, a power of two of entries.
type Sent struct {
	first    uint64        // number of the first one ever
	next     uint64        // number of the next one
	floor    uint64        // none below is remembered
	oldest   [lanes]uint64 // all below of the lane are settled; not below floor
	largest  [lanes]uint64 // largest acknowledged of the lane, plus one; zero while none is
	inFlight int           // bytes of packets that are not settled
	packets  int           // how many these are
	ring     []Packet
}

// lanes are the ways that packets take, each in order for itself: to the ND port, and the bulk lane.
const lanes = 2

// lane is the number of a packet's.
func (p *Packet) lane() int {
	if p.Bulk {
		return 1
	}
	return 0
}

// Start begins with a number, or goes on with it: first is what the connection began with.
func (s *Sent) Start(first, next uint64, ring []Packet) {
	*s = Sent{first: first, next: next, floor: next, oldest: [lanes]uint64{next, next}, ring: ring}
}

// First returns the number that the connection began with.
func (s *Sent) First() uint64 { return s.first }

// Next returns the number of the next transmission.
func (s *Sent) Next() uint64 { return s.next }

// Floor returns the lowest number that is remembered; it is Next when none is.
func (s *Sent) Floor() uint64 { return s.floor }

// Passed returns the number below which transmissions have been overtaken by an acknowledged one: one less than it are candidates
// for loss (RFC 8985 §6.2). It is zero while nothing was acknowledged.
func (s *Sent) Passed() uint64 { return max(s.largest[0], s.largest[1], 1) - 1 }

// Newest finds the packet whose number ends with low among the packets sent after all acknowledged ones. ok is false if there is none.
func (s *Sent) Newest(low uint32) (number uint64, ok bool) {
	back := uint64(uint32(s.next) - low)
	if back == 0 || back > s.next {
		return 0, false
	}
	number = s.next - back
	return number, number >= max(s.largest[0], s.largest[1], s.floor)
}

// overtaken returns the number of the oldest packet in flight on a path. ok says that a later packet was acknowledged, and within that a
// later packet of the same path was.
func (s *Sent) overtaken(lane int) (number uint64, within, ok bool) {
	end := max(s.largest[0], s.largest[1])
	n := s.oldestOf(lane, end)
	return n, n+1 < s.largest[lane], n+1 < end
}

// oldestOf returns the number of the oldest transmission in flight of a lane; end when there is none below.
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

// Packet returns the transmission with this number, from Floor to Next-1.
func (s *Sent) Packet(number uint64) *Packet { return &s.ring[number&uint64(len(s.ring)-1)] }

// Full says that another transmission has no place before Drop or Resize.
func (s *Sent) Full() bool { return s.next-s.floor == uint64(len(s.ring)) }

// Drop forgets the transmission with the lowest number.
func (s *Sent) Drop() {
	s.floor++
}

// learntAfter is how many round trips a packet that was taken for lost is remembered, to see that it was only late.
const learntAfter = 16

// learnt says whether all is known of a transmission: it arrived, it carried nothing, or what it carried is to go under another number. One that was
// taken for lost is remembered for a while all the same.
func (p *Packet) learnt(r *RTT, now clock.Time) bool {
	return p.State&Acked != 0 || p.Kind == Nothing || p.State != 0 && now.Sub(p.At) > learntAfter*r.Smoothed
}

// Forget forgets the oldest transmissions of which all is known.
func (s *Sent) Forget(r *RTT, now clock.Time) {
	for s.floor < s.Passed() && s.Packet(s.floor).learnt(r, now) {
		s.Drop()
	}
}

// Remembered returns how many transmissions are remembered.
func (s *Sent) Remembered() int { return int(s.next - s.floor) }

// Resize goes on in another ring, which has room for what is remembered, and returns the old one.
func (s *Sent) Resize(ring []Packet) (old []Packet) {
	old = s.ring
	s.ring = ring
	for n := s.floor; n != s.next; n++ {
		*s.Packet(n) = old[n&uint64(len(old)-1)]
	}
	return old
}

// Add remembers the next transmission and returns its number. Full must be false.
func (s *Sent) Add(p Packet) (number uint64) {
	number = s.next
	s.next++
	*s.Packet(number) = p
	if !p.settled() {
		s.inFlight += int(p.Size)
		s.packets++
	}
	return number
}

// InFlight returns the bytes of the transmissions that carried something and are neither known to have arrived nor taken for lost.
func (s *Sent) InFlight() int { return s.inFlight }

// PacketsInFlight returns how many these are.
func (s *Sent) PacketsInFlight() int { return s.packets }

// Oldest returns the number of the oldest transmission in flight; Next when there is none.
func (s *Sent) Oldest() uint64 {
	at := s.next
	for lane := range lanes {
		at = min(at, s.oldestOf(lane, at))
	}
	return at
}

// BulkIsSilent says whether the oldest packet in flight left by the bulk path and a later packet on the ND port arrived: the peer is alive,
// and has received nothing by the bulk path.
func (s *Sent) BulkIsSilent() bool {
	if s.packets == 0 {
		return false
	}
	n := s.Oldest()
	return s.Packet(n).Bulk && n+1 < s.largest[0]
}

// settle counts a transmission out, before its state or its kind changes.
func (s *Sent) settle(p *Packet) {
	if !p.settled() {
		s.inFlight -= int(p.Size)
		s.packets--
	}
}

// Mark records the fate of a packet: it is declared lost, or a timer sent its contents again.
func (s *Sent) Mark(p *Packet, state State) {
	s.settle(p)
	p.State |= state
}

// Void notes that what a transmission carried does not count any more.
func (s *Sent) Void(p *Packet) {
	s.settle(p)
	p.Kind = Nothing
}

// VoidAll is Void for all transmissions of a kind.
func (s *Sent) VoidAll(k Kind) {
	for n := s.floor; n != s.next; n++ {
		if p := s.Packet(n); p.Kind == k {
			s.Void(p)
		}
	}
}

// Resolve returns the largest number of a block. It reports false when the block acknowledges what was never sent.
func (s *Sent) Resolve(a *wire.Ack) (largest uint64, ok bool) {
	largest, ok = s.Expand(a.Largest)
	return largest, ok && largest-s.first >= uint64(a.Ranges[a.N-1].Last)
}

// Expand returns the number that was sent with these low 32 bits; false when none was in the last 2^31.
func (s *Sent) Expand(low uint32) (number uint64, ok bool) {
	behind := uint32(s.next) - low
	if behind == 0 || behind > 1<<31 || uint64(behind) > s.next-s.first {
		return 0, false
	}
	return s.next - uint64(behind), true
}

// Unknown returns the lowest number from low to high that is recorded and not known to have arrived, or more than high if there is none.
// The caller acknowledges all of them. Each packet that arrived leads past the packets behind it, so a peer that names the same packets in
// every acknowledgement costs no walk.
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

// Acknowledge notes that a transmission arrived, and returns what had become of it before. It returns nil when that was known, or when
// the transmission is not remembered.
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

// Violation says which rule between the numbers does not hold; it is empty when all do.
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

// Ring returns the memory.
func (s *Sent) Ring() []Packet { return s.ring }
