package guard

import "github.com/ndxdp/ndxdp/wire"

// Source is who a REQ comes from, for budgets: an IPv4 address, or the 64-bit prefix of an IPv6 address, because the rest
// is its owner's to choose.
type Source [16]byte

// SourceOf is the source that an address belongs to.
func SourceOf(ip [16]byte) (s Source) {
	if (wire.Endpoint{IP: ip}).Is4() {
		return ip
	}
	copy(s[:8], ip[:8])
	return s
}

// Usage is how many connections one source has.
type Usage struct{ HalfOpen, Established uint32 }

// Full says whether the source may have no further connection.
func (u Usage) Full() bool { return u.Established >= MaxSourceConns }

// Crowded says whether the source may have no further half-open connection. That passes as soon as the others are answered.
func (u Usage) Crowded() bool { return u.HalfOpen >= MaxSourceHalfOpen }

// Share is the part of its source's budget that a connection takes.
type Share uint8

// The parts.
const (
	ShareNone Share = iota
	ShareHalfOpen
	ShareEstablished
)

// Sources counts the connections of every source that has some.
type Sources struct {
	table    map[Source]Usage
	halfOpen int
}

// Usage is what a source has.
func (s *Sources) Usage(of Source) Usage { return s.table[of] }

// HalfOpen is how many half-open connections all sources have together.
func (s *Sources) HalfOpen() int { return s.halfOpen }

// Len is how many sources have something.
func (s *Sources) Len() int { return len(s.table) }

// Move moves a connection of a source from one part of its budget to another. It enforces no bound: who admits requests asks
// first (Usage.Full, Usage.Crowded).
func (s *Sources) Move(of Source, from, to Share) {
	u := s.table[of]
	u.count(from, ^uint32(0))
	u.count(to, 1)
	if from == ShareHalfOpen {
		s.halfOpen--
	}
	if to == ShareHalfOpen {
		s.halfOpen++
	}
	if u == (Usage{}) {
		delete(s.table, of)
	} else {
		s.table[of] = u
	}
}

func (u *Usage) count(s Share, by uint32) {
	switch s {
	case ShareHalfOpen:
		u.HalfOpen += by
	case ShareEstablished:
		u.Established += by
	case ShareNone:
	}
}
