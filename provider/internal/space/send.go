package space

import "slices"

// Piece is what lies from one place to another, not empty.
type Piece struct {
	From, To Place
	Losses   uint8 // times that packets with it were taken for lost
	Refused  bool  // the peer dropped it although nothing was lost
	bytes    int   // of packets, when it arrived
}

// Send is the sending side of a space: what was sent of it, what of that arrived, and what has to be sent again. What is neither has
// to be under way in a packet that is remembered. Its zero value has sent nothing.
type Send struct {
	next    Place   // what comes before was sent
	una     Place   // what comes before arrived
	arrived []Piece // what arrived beyond una: ascending, and not touching
	again   []Piece // what has to be sent again: ascending, beyond una, and not in arrived
	beyond  int     // bytes of packets in arrived
}

// Reset begins anew with everything before next sent and arrived.
func (s *Send) Reset(next Place) {
	*s = Send{next: next, una: next, arrived: s.arrived[:0], again: s.again[:0]}
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
	if len(s.again) == 0 {
		return Piece{}, false
	}
	return s.again[0], true
}

// MissingIn returns the first piece between two places that has to be sent again; false when there is none.
func (s *Send) MissingIn(from, to Place) (p Piece, ok bool) {
	i := s.search(s.again, from)
	if i == len(s.again) || !s.again[i].From.Before(to) {
		return Piece{}, false
	}
	p = s.again[i]
	p.From, p.To = later(p.From, from), earlier(p.To, to)
	return p, true
}

// HasAgain says whether something has to be sent again.
func (s *Send) HasAgain() bool { return len(s.again) > 0 }

// LastAgain says whether one piece is all that has to be sent again.
func (s *Send) LastAgain() bool { return len(s.again) == 1 }

// Beyond returns the bytes of packets that arrived beyond the oldest place that did not: the peer has to keep them.
func (s *Send) Beyond() int { return s.beyond }

// Arrived notes that the peer has a piece, which came in a packet of some bytes. It reports false when that was known.
func (s *Send) Arrived(from, to Place, bytes int) (fresh bool) {
	from, to = later(from, s.una), earlier(to, s.next)
	if !from.Before(to) {
		return false
	}
	s.removeAgain(from, to)
	if from == s.una && (len(s.arrived) == 0 || to.Before(s.arrived[0].From)) {
		s.una = to // the usual case: nothing is missing
		return true
	}
	if fresh = s.addArrived(Piece{From: from, To: to, bytes: bytes}); !fresh {
		return false
	}
	s.beyond += bytes
	if first := s.arrived[0]; first.From == s.una {
		s.una = first.To
		s.beyond -= first.bytes
		s.arrived = slices.Delete(s.arrived, 0, 1)
	}
	return true
}

// addArrived adds a piece to arrived, and reports whether that was new.
func (s *Send) addArrived(p Piece) (fresh bool) {
	i := s.search(s.arrived, p.From)
	if i > 0 && s.arrived[i-1].To == p.From {
		i-- // it touches the one before
	}
	j := i
	for ; j < len(s.arrived) && !p.To.Before(s.arrived[j].From); j++ {
		p.bytes += s.arrived[j].bytes
	}
	if i == j {
		s.arrived = slices.Insert(s.arrived, i, p)
		return true
	}
	first, last := &s.arrived[i], s.arrived[j-1]
	if j == i+1 && !p.From.Before(first.From) && !last.To.Before(p.To) {
		return false
	}
	first.From, first.To, first.bytes = earlier(p.From, first.From), later(p.To, last.To), p.bytes
	s.arrived = slices.Delete(s.arrived, i+1, j)
	return true
}

// search returns the index of the first piece that ends behind a place. Most pieces are asked for at the end of the list.
func (s *Send) search(list []Piece, at Place) int {
	low, high := 0, len(list)
	if high > 0 && !at.Before(list[high-1].To) {
		return high
	}
	for low < high {
		middle := (low + high) / 2
		if at.Before(list[middle].To) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// Missing notes that a piece has to be sent again, but for what of it arrived.
func (s *Send) Missing(p Piece) {
	p.From, p.To = later(p.From, s.una), earlier(p.To, s.next)
	for i := s.search(s.arrived, p.From); i < len(s.arrived) && s.arrived[i].From.Before(p.To); i++ {
		hole := p
		hole.To = s.arrived[i].From
		s.addAgain(hole)
		p.From = s.arrived[i].To
	}
	s.addAgain(p)
}

// addAgain adds what is not there yet of a piece to again.
func (s *Send) addAgain(p Piece) {
	i := s.search(s.again, p.From)
	for ; p.From.Before(p.To); i++ {
		if i == len(s.again) || !s.again[i].From.Before(p.To) {
			s.again = slices.Insert(s.again, i, p)
			return
		}
		have := &s.again[i]
		have.Losses, have.Refused = max(have.Losses, p.Losses), have.Refused || p.Refused
		if p.From.Before(have.From) {
			hole := p
			hole.To = have.From
			p.From = have.To
			s.again = slices.Insert(s.again, i, hole)
			i++
			continue
		}
		p.From = have.To
	}
}

// removeAgain takes a piece out of again: it was sent, or it arrived.
func (s *Send) removeAgain(from, to Place) {
	if len(s.again) == 0 {
		return
	}
	i := s.search(s.again, from)
	for i < len(s.again) && s.again[i].From.Before(to) {
		p := &s.again[i]
		switch before, behind := p.From.Before(from), to.Before(p.To); {
		case before && behind:
			rest := *p
			p.To, rest.From = from, to
			s.again = slices.Insert(s.again, i+1, rest)
			return
		case before:
			p.To = from
			i++
		case behind:
			p.From = to
			return
		default:
			s.again = slices.Delete(s.again, i, i+1)
		}
	}
}

// SentAgain notes that a piece was sent again.
func (s *Send) SentAgain(from, to Place) { s.removeAgain(from, to) }

// TakenBack notes that the peer has nothing from a place on, whatever it said. What packets under way carry is told with Missing.
func (s *Send) TakenBack(place Place) {
	place = later(place, s.una)
	i := s.search(s.arrived, place)
	keep := i
	for ; i < len(s.arrived); i++ {
		p := &s.arrived[i]
		s.beyond -= p.bytes
		s.addAgain(Piece{From: later(p.From, place), To: p.To, Refused: true})
		if p.From.Before(place) {
			p.To, p.bytes = place, 0
			keep++
		}
	}
	s.arrived = s.arrived[:keep]
}

// Hole returns the first piece between two places that neither arrived nor has to be sent again; false when there is none.
func (s *Send) Hole(from, to Place) (p Piece, ok bool) {
	for from.Before(to) {
		i, j := s.search(s.arrived, from), s.search(s.again, from)
		switch {
		case i < len(s.arrived) && !from.Before(s.arrived[i].From):
			from = s.arrived[i].To
		case j < len(s.again) && !from.Before(s.again[j].From):
			from = s.again[j].To
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
	for i, p := range s.arrived {
		if !at.Before(p.From) || !p.From.Before(p.To) || s.next.Before(p.To) {
			return "the pieces that arrived are out of order"
		}
		if j := s.search(s.again, p.From); j < len(s.again) && s.again[j].From.Before(p.To) {
			return "a piece that arrived is to be sent again"
		}
		at = s.arrived[i].To
		beyond -= p.bytes
	}
	if beyond != 0 {
		return "bytes are counted that did not arrive"
	}
	at = s.una
	for _, p := range s.again {
		if p.From.Before(at) || !p.From.Before(p.To) || s.next.Before(p.To) {
			return "the pieces to send again are out of order"
		}
		at = p.To
	}
	return ""
}
