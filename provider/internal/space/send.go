package space

// Piece is what lies from one place to another, not empty.
type Piece struct {
	From, To Place
	Losses   uint8 // times that packets with it were taken for lost
	Refused  bool  // the peer dropped it although nothing was lost
	bytes    int   // of packets, when it arrived
}

// key implements keyed. Pieces of a list do not overlap, so the order of their ends is the order of their beginnings. A search finds the
// first piece that ends at or behind a stream offset.
func (p Piece) key() Place { return p.To }

// Send is the sending side of a space: what was sent, what of it arrived, and what has to be sent again. All other sent contents are in
// flight in recorded packets. Its zero value has sent nothing.
type Send struct {
	next    Place          // what comes before was sent
	una     Place          // what comes before arrived
	arrived ordered[Piece] // what arrived beyond una, in pieces that do not touch
	again   ordered[Piece] // what has to be sent again: beyond una, and not in arrived
	beyond  int            // bytes of packets in arrived
}

// Reset begins anew with everything before next sent and arrived.
func (s *Send) Reset(next Place) {
	*s = Send{next: next, una: next}
}

// Next returns the place of what is sent next for the first time.
func (s *Send) Next() Place { return s.next }

// Una returns the oldest place that is not known to have arrived; it is Next when there is none.
func (s *Send) Una() Place { return s.una }

// Outstanding says whether the peer has something left to acknowledge.
func (s *Send) Outstanding() bool { return s.una != s.next }

// Sent notes that what comes before to was sent.
func (s *Send) Sent(to Place) { s.next = to }

// Again returns the oldest piece that has to be sent again; false when there is none.
func (s *Send) Again() (p Piece, ok bool) {
	if s.again.len() == 0 {
		return Piece{}, false
	}
	return *s.again.get(s.again.front()), true
}

// MissingIn returns the first piece between two places that has to be sent again; false when there is none.
func (s *Send) MissingIn(from, to Place) (p Piece, ok bool) {
	at := s.again.search(from + 1)
	if !s.again.has(at) || !s.again.get(at).From.Before(to) {
		return Piece{}, false
	}
	p = *s.again.get(at)
	p.From, p.To = later(p.From, from), earlier(p.To, to)
	return p, true
}

// HasAgain says whether something has to be sent again.
func (s *Send) HasAgain() bool { return s.again.len() > 0 }

// LastAgain says whether one piece is all that has to be sent again.
func (s *Send) LastAgain() bool { return s.again.len() == 1 }

// Beyond returns the bytes of packets that arrived beyond the oldest place that did not: the peer has to keep them.
func (s *Send) Beyond() int { return s.beyond }

// Arrived notes that the peer has a piece, which came in a packet of some bytes. It reports false when that was known.
func (s *Send) Arrived(from, to Place, bytes int) (fresh bool) {
	from, to = later(from, s.una), earlier(to, s.next)
	if !from.Before(to) {
		return false
	}
	s.removeAgain(from, to)
	if from == s.una && (s.arrived.len() == 0 || to.Before(s.arrived.get(s.arrived.front()).From)) {
		s.una = to // the usual case: nothing is missing
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

// addArrived adds a piece to arrived, and reports whether that was new.
func (s *Send) addArrived(p Piece) (fresh bool) {
	at := s.arrived.search(p.From) // one that ends there touches it
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

// Missing notes that a piece has to be sent again, but for what of it arrived.
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

// addAgain adds what is not there yet of a piece to again.
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

// removeAgain takes a piece out of again: it was sent, or it arrived.
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

// SentAgain notes that a piece was sent again.
func (s *Send) SentAgain(from, to Place) { s.removeAgain(from, to) }

// TakenBack notes that the peer has nothing from a stream offset on, whatever it acknowledged. Missing is called for the contents of
// packets in flight. TakenBack calls keep for each segment that had arrived, which may note with Arrived what of the segment stays. So the
// caller looks at no more than what the peer acknowledged since the last time.
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

// Hole returns the first piece between two places that neither arrived nor has to be sent again; false when there is none.
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

// Violation says which rule between the numbers does not hold; it is empty when all do.
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
