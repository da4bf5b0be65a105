package guard

import "github.com/ndxdp/ndxdp/wire"

// Source identifies the sender of a REQ for budgets: an IPv4 address, or the 64-bit prefix of an IPv6 address, because its owner
// chooses the rest.
type Source [16]byte

// SourceOf returns the source of an address.
func SourceOf(ip [16]byte) (s Source) {
	if (wire.Endpoint{IP: ip}).Is4() {
		return ip
	}
	copy(s[:8], ip[:8])
	return s
}

// Usage is the number of connections of one source.
type Usage struct{ HalfOpen, Established uint32 }

// Full reports whether the source may have no more connections.
func (u Usage) Full() bool { return u.Established >= MaxSourceConns }

// Crowded reports whether the source may have no more half-open connections at present.
func (u Usage) Crowded() bool { return u.HalfOpen >= MaxSourceHalfOpen }

// Share is the budget of its source that a connection counts against.
type Share uint8

// Budgets of a source.
const (
	ShareNone Share = iota
	ShareHalfOpen
	ShareEstablished
)

// Sources counts the connections of each source that has any.
type Sources struct {
	table    map[Source]Usage
	unproven int
}

// Usage returns the connections of a source.
func (s *Sources) Usage(of Source) Usage { return s.table[of] }

// Unproven returns how many half-open connections of all sources may lack a cookie: at most SourceUnproven of each source. So a host that
// proves its address and opens many does not make others prove theirs.
func (s *Sources) Unproven() int { return s.unproven }

// Len returns the number of sources with connections.
func (s *Sources) Len() int { return len(s.table) }

// Move moves a connection from one budget of its source to another. It enforces no bound: code that admits requests checks
// Usage.Full and Usage.Crowded first.
func (s *Sources) Move(of Source, from, to Share) {
	u := s.table[of]
	s.unproven -= u.unproven()
	u.count(from, ^uint32(0))
	u.count(to, 1)
	s.unproven += u.unproven()
	if u == (Usage{}) {
		delete(s.table, of)
	} else {
		s.table[of] = u
	}
}

func (u Usage) unproven() int { return min(int(u.HalfOpen), SourceUnproven) }

func (u *Usage) count(s Share, by uint32) {
	switch s {
	case ShareHalfOpen:
		u.HalfOpen += by
	case ShareEstablished:
		u.Established += by
	case ShareNone:
	}
}
