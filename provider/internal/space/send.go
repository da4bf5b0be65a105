package space

// Piece is a non-empty range of stream offsets.
type Piece struct {
	From, To Place
	Losses   uint8 // how often packets with it were declared lost
	Refused  bool  // the peer dropped it although no packet was lost
	bytes    int   // for arrived ranges: size of its packets
}

// key implements keyed. Ranges of a list do not overlap, so sorting by end and by beginning is the same. A search finds the first
// range that ends at or after a stream offset.
func (p Piece) key() Place { return p.To }

// Send is the sending side of a space. It knows what was sent, what arrived, and what must be retransmitted. All other contents are
// in flight in recorded packets. The zero value has sent nothing.
type Send struct {
	next    Place          // everything before was sent
	una     Place          // everything before arrived
	arrived ordered[Piece] // ranges after una that arrived; they do not touch
	again   ordered[Piece] // ranges after una to retransmit
	beyond  int            // total bytes of the packets in the list arrived
}

// Reset starts again; everything before next was sent and has arrived.
func (s *Send) Reset(next Place) {
	*s = Send{next: next, una: next}
}

// Next returns the stream offset of the first unsent byte.
func (s *Send) Next() Place { return s.next }

// Una returns the oldest stream offset that is not known to have arrived, or Next.
func (s *Send) Una() Place { return s.una }

// Outstanding reports whether the peer has not acknowledged everything.
func (s *Send) Outstanding() bool { return s.una != s.next }

// Sent records that everything before to was sent.
func (s *Send) Sent(to Place) { s.next = to }

// Again returns the oldest range to retransmit. ok is false if there is none.
func (s *Send) Again() (p Piece, ok bool) {
	if s.again.len() == 0 {
		return Piece{}, false
	}
	return *s.again.get(s.again.front()), true
}

// MissingIn returns the first range to retransmit between two stream offsets. ok is false if there is none.
func (s *Send) MissingIn(from, to Place) (p Piece, ok bool) {
	at := s.again.search(from + 1)
	if !s.again.has(at) || !s.again.get(at).From.Before(to) {
		return Piece{}, false
	}
	p = *s.again.get(at)
	p.From, p.To = later(p.From, from), earlier(p.To, to)
	return p, true
}

// HasAgain reports whether there is a range to retransmit.
func (s *Send) HasAgain() bool { return s.again.len() > 0 }

// LastAgain reports whether exactly one range is left to retransmit.
func (s *Send) LastAgain() bool { return s.again.len() == 1 }

// Beyond returns the size of packets that arrived behind a gap, which the peer has to store.
func (s *Send) Beyond() int { return s.beyond }

// Arrived records that the peer has received a range in a packet of this size. It returns false if this was known.
func (s *Send) Arrived(from, to Place, bytes int) (fresh bool) {
	from, to = later(from, s.una), earlier(to, s.next)
	if !from.Before(to) {
		return false
	}
	s.removeAgain(from, to)
	if from == s.una && (s.arrived.len() == 0 || to.Before(s.arrived.get(s.arrived.front()).From)) {
		s.una = to // the usual case: no gap
		return true
	}
	if fresh = s.addArrived(Piece{From: from, To: to, bytes: bytes}); !fresh {
		return false
	}
	s.beyond += bytes
	front := s.arrived.front()
	if first := s.arrived.get(front); first.From == s.una {
		s.una = first.To
		s.beyond -= first.bytes
		s.arrived.remove(front)
	}
	return true
}

// addArrived adds a range to arrived. It returns false if all of it was there.
func (s *Send) addArrived(p Piece) (fresh bool) {
	at := s.arrived.search(p.From) // includes a range that ends at p.From, because the two touch
	if !s.arrived.has(at) || p.To.Before(s.arrived.get(at).From) {
		s.arrived.insert(at, p)
		return true
	}
	first := s.arrived.get(at)
	if !p.From.Before(first.From) && !first.To.Before(p.To) {
		return false
	}
	from, to, bytes := earlier(p.From, first.From), later(p.To, first.To), p.bytes+first.bytes
	next := s.arrived.after(at)
	for s.arrived.has(next) && !p.To.Before(s.arrived.get(next).From) {
		to, bytes = later(to, s.arrived.get(next).To), bytes+s.arrived.get(next).bytes
		next = s.arrived.remove(next)
		at = s.arrived.search(p.From)
	}
	first = s.arrived.get(at)
	first.From, first.To, first.bytes = from, to, bytes
	return true
}

// Missing records that a range must be retransmitted, except for parts that arrived.
func (s *Send) Missing(p Piece) {
	p.From, p.To = later(p.From, s.una), earlier(p.To, s.next)
	for at := s.arrived.search(p.From + 1); s.arrived.has(at) && s.arrived.get(at).From.Before(p.To); at = s.arrived.after(at) {
		hole := p
		hole.To = s.arrived.get(at).From
		s.addAgain(hole)
		p.From = s.arrived.get(at).To
	}
	s.addAgain(p)
}

// addAgain adds the missing parts of a range to again.
func (s *Send) addAgain(p Piece) {
	for at := s.again.search(p.From + 1); p.From.Before(p.To); at = s.again.after(at) {
		if !s.again.has(at) || !s.again.get(at).From.Before(p.To) {
			s.again.insert(at, p)
			return
		}
		have := s.again.get(at)
		have.Losses, have.Refused = max(have.Losses, p.Losses), have.Refused || p.Refused
		hole := p
		hole.To, p.From = have.From, have.To
		if hole.From.Before(hole.To) {
			at = s.again.after(s.again.insert(at, hole))
		}
	}
}

// removeAgain removes a range from again.
func (s *Send) removeAgain(from, to Place) {
	if s.again.len() == 0 {
		return
	}
	at := s.again.search(from + 1)
	for s.again.has(at) && s.again.get(at).From.Before(to) {
		p := s.again.get(at)
		switch before, behind := p.From.Before(from), to.Before(p.To); {
		case before && behind:
			rest := *p
			p.To, rest.From = from, to
			s.again.insert(s.again.after(at), rest)
			return
		case before:
			p.To = from
			at = s.again.after(at)
		case behind:
			p.From = to
			return
		default:
			at = s.again.remove(at)
		}
	}
}

// SentAgain records that a range was retransmitted.
func (s *Send) SentAgain(from, to Place) { s.removeAgain(from, to) }

// TakenBack records that the peer has dropped everything from a stream offset on, including acknowledged contents. The caller also
// calls Missing for contents in flight. TakenBack calls keep for each range that had arrived; keep may call Arrived for parts that
// the peer did not drop. The cost is bounded by what the peer acknowledged after the previous call.
func (s *Send) TakenBack(place Place, keep func(from, to Place)) {
	place = later(place, s.una)
	for at := s.arrived.search(place + 1); s.arrived.has(at); at = s.arrived.search(place + 1) {
		p := s.arrived.get(at)
		from, to := later(p.From, place), p.To
		s.beyond -= p.bytes
		if p.From.Before(place) {
			p.To, p.bytes = place, 0
		} else {
			s.arrived.remove(at)
		}
		s.addAgain(Piece{From: from, To: to, Refused: true})
		keep(from, to)
		place = to
	}
}

// Hole returns the first range between two stream offsets that neither arrived nor must be retransmitted. ok is false if there is
// none.
func (s *Send) Hole(from, to Place) (p Piece, ok bool) {
	for from.Before(to) {
		i, j := s.arrived.search(from+1), s.again.search(from+1)
		switch {
		case s.arrived.has(i) && !from.Before(s.arrived.get(i).From):
			from = s.arrived.get(i).To
		case s.again.has(j) && !from.Before(s.again.get(j).From):
			from = s.again.get(j).To
		default:
			return Piece{From: from, To: to}, true
		}
	}
	return Piece{}, false
}

// Violation returns the invariant that is violated, or an empty string.
func (s *Send) Violation() string {
	at, beyond := s.una, s.beyond
	if s.next.Before(at) {
		return "more arrived than was sent"
	}
	for i := s.arrived.front(); s.arrived.has(i); i = s.arrived.after(i) {
		p := s.arrived.get(i)
		if !at.Before(p.From) || !p.From.Before(p.To) || s.next.Before(p.To) {
			return "the pieces that arrived are out of order"
		}
		if j := s.again.search(p.From + 1); s.again.has(j) && s.again.get(j).From.Before(p.To) {
			return "a piece that arrived is to be sent again"
		}
		at = p.To
		beyond -= p.bytes
	}
	if beyond != 0 {
		return "bytes are counted that did not arrive"
	}
	at = s.una
	for i := s.again.front(); s.again.has(i); i = s.again.after(i) {
		p := s.again.get(i)
		if p.From.Before(at) || !p.From.Before(p.To) || s.next.Before(p.To) {
			return "the pieces to send again are out of order"
		}
		at = p.To
	}
	return ""
}
