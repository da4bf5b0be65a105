// Package recovery keeps what is known of the packets that a connection sent, by packet number (PROTOCOL §3.1, §9.3). Its
// objects are values without locks; whoever owns the connection calls them.
package recovery

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Kind says what a transmission carried.
type Kind uint8

// The kinds of transmissions. The first two are the sequence spaces of wire.
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

// Packet is what is remembered of a transmission.
type Packet struct {
	At    clock.Time // when it left
	PSN   wire.PSN   // of what it carried
	Kind  Kind
	State State
}

// Sent are the newest transmissions of one direction of a connection: a ring in the order of packet numbers, which is the order in time.
// The caller provides its memory, a power of two of entries.
type Sent struct {
	first   uint64 // number of the first one ever
	next    uint64 // number of the next one
	floor   uint64 // none below is remembered
	largest uint64 // largest acknowledged, plus one; zero while none is
	ring    []Packet
}

// Start begins with a number, or goes on with it: first is what the connection began with.
func (s *Sent) Start(first, next uint64, ring []Packet) {
	*s = Sent{first: first, next: next, floor: next, ring: ring}
}

// First returns the number that the connection began with.
func (s *Sent) First() uint64 { return s.first }

// Next returns the number of the next transmission.
func (s *Sent) Next() uint64 { return s.next }

// Floor returns the lowest number that is remembered; it is Next when none is.
func (s *Sent) Floor() uint64 { return s.floor }

// Passed returns the number below which transmissions have been overtaken by an acknowledged one: one less than it are candidates
// for loss (RFC 8985 §6.2). It is zero while nothing was acknowledged.
func (s *Sent) Passed() uint64 { return max(s.largest, 1) - 1 }

// Packet returns the transmission with this number, from Floor to Next-1.
func (s *Sent) Packet(number uint64) *Packet { return &s.ring[number&uint64(len(s.ring)-1)] }

// Full says that another transmission has no place before Drop or Grow.
func (s *Sent) Full() bool { return s.next-s.floor == uint64(len(s.ring)) }

// Drop forgets the transmission with the lowest number.
func (s *Sent) Drop() { s.floor++ }

// Grow goes on in a larger ring and returns the old one.
func (s *Sent) Grow(ring []Packet) (old []Packet) {
	old = s.ring
	s.ring = ring
	for n := s.floor; n != s.next; n++ {
		*s.Packet(n) = old[n&uint64(len(old)-1)]
	}
	return old
}

// Add remembers the next transmission and returns its number. Full must be false.
func (s *Sent) Add(at clock.Time, kind Kind, psn wire.PSN) (number uint64) {
	number = s.next
	s.next++
	*s.Packet(number) = Packet{At: at, Kind: kind, PSN: psn}
	return number
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

// Acknowledge notes that a transmission arrived. It returns nil when that was known, or when it is not remembered.
func (s *Sent) Acknowledge(number uint64) *Packet {
	if number < s.floor {
		return nil
	}
	p := s.Packet(number)
	if p.State&Acked != 0 {
		return nil
	}
	p.State |= Acked
	s.largest = max(s.largest, number+1)
	return p
}

// Ring returns the memory.
func (s *Sent) Ring() []Packet { return s.ring }
