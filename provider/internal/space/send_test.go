package space

import "testing"

// The states of a byte in the model of the sender.
const (
	underWay = iota
	arrived
	again
)

// sendModel is a map of bytes, the model of a Send.
type sendModel struct {
	*stream
	t      *testing.T
	send   Send
	next   int   // index of the next byte to send
	state  []int // by index
	losses []uint8
}

// newSendModel returns a model that has sent nothing.
func newSendModel(t *testing.T, seed uint64) *sendModel {
	m := &sendModel{stream: newStream(seed, 60), t: t}
	m.state, m.losses = make([]int, len(m.places)), make([]uint8, len(m.places))
	m.send.Reset(m.at(0))
	return m
}

// una returns the index of the oldest byte that was not acknowledged.
func (m *sendModel) una() int {
	i := 0
	for i < m.next && m.state[i] == arrived {
		i++
	}
	return i
}

// first returns the index of the first byte with this state in a range, or false if there is none.
func (m *sendModel) first(state, from, to int) (i int, ok bool) {
	for i = max(from, 0); i < min(to, m.next); i++ {
		if m.state[i] == state {
			return i, true
		}
	}
	return i, false
}

// check compares all results of the Send with the model.
func (m *sendModel) check(what string) {
	m.t.Helper()
	s, una := &m.send, m.una()
	if s.Una() != m.at(una) || s.Next() != m.at(m.next) || s.Outstanding() != (una < m.next) {
		m.t.Fatalf("%s: from %x to %x is outstanding, the model has %x to %x", what, s.Una(), s.Next(), m.at(una), m.at(m.next))
	}
	if v := s.Violation(); v != "" {
		m.t.Fatalf("%s: %s", what, v)
	}
	i, has := m.first(again, 0, m.next)
	p, ok := s.Again()
	if ok != has || s.HasAgain() != has {
		m.t.Fatalf("%s: something has to be retransmitted: %v, in the model: %v", what, ok, has)
	}
	if has {
		m.checkPiece(what, p, i, m.next)
	}
	if _, gone := m.first(arrived, una, m.next); !gone && s.Beyond() != 0 {
		m.t.Fatalf("%s: %d bytes beyond the oldest that is missing, where nothing arrived", what, s.Beyond())
	}
	from := m.rng.IntN(m.next)
	to := from + 1 + m.rng.IntN(m.next-from)
	i, has = m.first(again, from, to)
	if p, ok = s.MissingIn(m.at(from), m.at(to)); ok != has {
		m.t.Fatalf("%s: missing between %d and %d: %v, in the model: %v", what, from, to, ok, has)
	}
	if has {
		m.checkPiece(what, p, i, to)
	}
	from = max(from, una)
	i, has = m.first(underWay, from, to)
	if p, ok = s.Hole(m.at(from), m.at(to)); ok != has || has && p.From != m.at(i) {
		m.t.Fatalf("%s: hole at %x: %v, in the model at %d: %v", what, p.From, ok, i, has)
	}
}

// checkPiece checks that a segment begins at from, ends at most at most, and has no byte that need not be sent again.
func (m *sendModel) checkPiece(what string, p Piece, from, most int) {
	m.t.Helper()
	to, ok := m.index[p.To]
	if p.From != m.at(from) || !ok || to <= from || to > most {
		m.t.Fatalf("%s: from %x to %x has to be retransmitted, the model begins at %x", what, p.From, p.To, m.at(from))
	}
	for i := from; i < to; i++ {
		if m.state[i] != again || m.losses[i] > p.Losses {
			m.t.Fatalf("%s: byte %d is in state %d, lost %d times, in a piece that was lost %d times", what, i, m.state[i], m.losses[i], p.Losses)
		}
	}
}

// change sets the state of the bytes in a range that are not acknowledged, and reports whether any changed.
func (m *sendModel) change(from, to, state int, only func(was int) bool) (any bool) {
	for i := from; i < min(to, m.next); i++ {
		if only(m.state[i]) {
			m.state[i], any = state, true
		}
	}
	return any
}

// step applies a random event to the Send and to the model.
func (m *sendModel) step() string {
	notArrived := func(was int) bool { return was != arrived }
	if m.next == 0 || m.rng.IntN(4) == 0 && m.next < len(m.places) {
		m.next = min(m.next+1+m.rng.IntN(9), len(m.places))
		m.send.Sent(m.at(m.next))
		return "sent"
	}
	from, to := m.piece(m.next, 12)
	switch m.rng.IntN(8) {
	case 0, 1, 2:
		fresh := m.change(from, to, arrived, notArrived)
		if got := m.send.Arrived(m.at(from), m.at(to), to-from); got != fresh {
			m.t.Fatalf("from %d to %d arrived: new %v, in the model %v", from, to, got, fresh)
		}
		return "arrived"
	case 3, 4:
		losses := uint8(m.rng.IntN(4))
		for i := from; i < to; i++ {
			if m.state[i] == underWay {
				m.losses[i] = 0
			}
			m.losses[i] = max(m.losses[i], losses)
		}
		m.change(from, to, again, notArrived)
		m.send.Missing(Piece{From: m.at(from), To: m.at(to), Losses: losses})
		return "missing"
	case 5:
		if p, ok := m.send.Again(); ok {
			from = m.index[p.From]
			to = from + 1 + m.rng.IntN(m.index[p.To]-from)
		}
		m.change(from, to, underWay, func(was int) bool { return was == again })
		m.send.SentAgain(m.at(from), m.at(to))
		return "sent again"
	case 6:
		if m.rng.IntN(10) > 0 {
			return "nothing"
		}
		una := m.una()
		for i := max(from, una); i < m.next; i++ {
			if m.state[i] == arrived {
				m.state[i], m.losses[i] = again, 0
			}
		}
		m.send.TakenBack(m.at(from), keepNothing)
		return "taken back"
	default:
		una := m.una() // the usual case: the oldest packet is acknowledged
		to = min(una+1+m.rng.IntN(12), m.next)
		if una == to {
			return "nothing"
		}
		m.change(una, to, arrived, notArrived)
		m.send.Arrived(m.at(una), m.at(to), to-una)
		return "the oldest arrived"
	}
}

// Random segments are sent, acknowledged, lost, retransmitted and taken back. The Send matches a map of bytes, also if message
// numbers wrap around and messages are empty.
func TestSendAgainstAMapOfBytes(t *testing.T) {
	for seed := range uint64(40) {
		m := newSendModel(t, seed)
		for range 2000 {
			m.check(m.step())
		}
		m.change(0, len(m.places), arrived, func(int) bool { return true })
		m.next = len(m.places)
		m.send.Sent(m.at(m.next))
		m.send.Arrived(m.at(0), m.at(m.next), 1)
		for i := range m.next {
			m.state[i] = arrived
		}
		m.check("the end")
		if m.send.Beyond() != 0 || m.send.arrived.len()+m.send.again.len() != 0 {
			t.Fatalf("seed %d: something is left: %+v", seed, m.send)
		}
	}
}

// Packets acknowledged behind a missing one are counted with their bytes.
func TestBytesBeyondWhatIsMissing(t *testing.T) {
	for seed := range uint64(20) {
		m := newSendModel(t, seed)
		m.next = len(m.places)
		m.send.Sent(m.at(m.next))
		var cuts []int
		for i := 0; i < m.next; i = min(i+1+m.rng.IntN(9), m.next) {
			cuts = append(cuts, i)
		}
		cuts = append(cuts, m.next)
		for _, k := range m.rng.Perm(len(cuts) - 1) {
			from, to := cuts[k], cuts[k+1]
			m.send.Arrived(m.at(from), m.at(to), 100+to-from)
			m.change(from, to, arrived, func(int) bool { return true })
			want := 0
			for j := range len(cuts) - 1 {
				if cuts[j] >= m.una() && m.state[cuts[j]] == arrived {
					want += 100 + cuts[j+1] - cuts[j]
				}
			}
			if m.send.Beyond() != want {
				t.Fatalf("seed %d: %d bytes beyond, want %d", seed, m.send.Beyond(), want)
			}
			m.check("arrived")
		}
	}
}

// Contents that were taken back are marked as refused, not as lost.
func TestTakenBackIsRefused(t *testing.T) {
	var s Send
	s.Reset(At(3, 0))
	s.Sent(At(9, 0))
	s.Arrived(At(4, 0), At(6, 50), 100)
	s.Arrived(At(7, 0), At(8, 0), 100)
	s.TakenBack(At(5, 10), keepNothing)
	for _, want := range []Piece{{From: At(5, 10), To: At(6, 50), Refused: true}, {From: At(7, 0), To: At(8, 0), Refused: true}} {
		p, ok := s.Again()
		if !ok || p.From != want.From || p.To != want.To || p.Refused != want.Refused || p.Losses != 0 {
			t.Errorf("%+v has to be retransmitted, want %+v", p, want)
		}
		if got, one := s.LastAgain(), p.From == At(7, 0); got != one {
			t.Errorf("%+v is the last: %v", p, got)
		}
		s.SentAgain(p.From, p.To)
	}
	s.TakenBack(At(1, 0), keepNothing) // before the outstanding data
	if p, ok := s.Again(); !ok || p.From != At(4, 0) || p.To != At(5, 10) || s.Una() != At(3, 0) {
		t.Errorf("%+v has to be retransmitted", p)
	}
}

// In whatever order a peer acknowledges every other packet, or packets are lost, the cost of an acknowledgement or a loss does not
// grow with their number.
func TestAcknowledgedInAnyOrder(t *testing.T) {
	const packets = 12000
	for name, order := range anyOrder(packets) {
		var s Send
		s.Reset(At(0, 0))
		s.Sent(At(2*packets, 0))
		piece := func(i int) (from, to Place) { return At(uint32(i), 0), At(uint32(i+1), 0) }
		each := func(do func(at int, from, to Place), odd int) {
			for i := range packets {
				at := 2*order(i) + odd
				from, to := piece(at)
				do(at, from, to)
				checkChunks(t, name, &s.arrived, 16)
				checkChunks(t, name, &s.again, 16)
			}
		}
		each(func(at int, from, to Place) {
			if !s.Arrived(from, to, 10) {
				t.Fatalf("%s: packet %d is acknowledged as one that was known", name, at)
			}
		}, 1)
		each(func(_ int, from, to Place) { s.Missing(Piece{From: from, To: to}) }, 0)
		if s.arrived.len() != packets || s.again.len() != packets || s.Beyond() != 10*packets {
			t.Fatalf("%s: %d pieces arrived with %d bytes, and %d are missing", name, s.arrived.len(), s.Beyond(), s.again.len())
		}
		each(func(at int, from, to Place) {
			switch at % 4 {
			case 0:
				s.SentAgain(from, to)
				s.Arrived(from, to, 10)
			default:
				s.Arrived(from, to, 10)
			}
		}, 0)
		if v := s.Violation(); v != "" || s.Outstanding() || s.HasAgain() || s.arrived.len() != 0 || s.Beyond() != 0 {
			t.Errorf("%s: %q; %d pieces and %d bytes are left from %x on", name, v, s.arrived.len(), s.Beyond(), s.Una())
		}
	}
}

func keepNothing(Place, Place) {}

// Taking back examines only what was acknowledged since the last time, however much is outstanding. Contents to be kept stay
// acknowledged.
func TestTakenBackLooksAtWhatArrived(t *testing.T) {
	const outstanding = 60000
	var s Send
	s.Sent(At(outstanding, 0))
	looked := 0
	takeBack := func() {
		s.TakenBack(At(0, 0), func(from, to Place) {
			for at := from; at.Before(to); at = at.NextMessage() {
				if looked++; at.Message()%2 == 1 {
					s.Arrived(at, at.NextMessage(), 0)
				}
			}
		})
	}
	for i := range uint32(100) {
		at := At(10+100*i, 0)
		s.Arrived(at, At(10+100*i+4, 0), 1000)
		if looked = 0; s.Beyond() != 1000 {
			t.Fatalf("%d bytes beyond", s.Beyond())
		}
		takeBack()
		if most := 4 + 2*int(i); looked > most || s.Beyond() != 0 {
			t.Fatalf("looked at %d messages, %d at most had arrived; %d bytes beyond", looked, most, s.Beyond())
		}
	}
	if text := s.Violation(); text != "" {
		t.Error(text)
	}
	if p, ok := s.MissingIn(At(11, 0), At(12, 0)); ok {
		t.Errorf("%+v is kept and goes again", p)
	}
}
