package space

import (
	"math"
	"math/rand/v2"
	"testing"
)

// stream is a sequence of messages with random lengths, some of them empty. Their numbers wrap around. It has all offsets in order.
type stream struct {
	rng    *rand.Rand
	last   map[Place]bool // offsets whose byte ends its message
	places []Place
	index  map[Place]int // including the offset behind the last byte
}

// newStream makes a stream of this many messages.
func newStream(seed uint64, messages int) *stream {
	s := &stream{rng: rand.New(rand.NewPCG(seed, 1)), last: map[Place]bool{}, index: map[Place]int{}}
	number := uint32(math.MaxUint32 - messages/2)
	for range messages {
		length := []uint32{0, 1, 2, 7, 30}[s.rng.IntN(5)]
		for off := range max(length, 1) {
			p := At(number, off)
			s.index[p] = len(s.places)
			s.places = append(s.places, p)
		}
		s.last[s.places[len(s.places)-1]] = true
		number++
	}
	s.index[At(number, 0)] = len(s.places)
	return s
}

// at returns the offset with an index. Behind the last byte it is the beginning of the next message.
func (s *stream) at(i int) Place {
	if i == len(s.places) {
		return s.places[i-1].NextMessage()
	}
	return s.places[i]
}

// piece returns two indices that are less than most apart, the first of them below end.
func (s *stream) piece(end, most int) (from, to int) {
	from = s.rng.IntN(end)
	return from, min(from+1+s.rng.IntN(most), end)
}

// Offsets have the order of their bytes, also if message numbers wrap around.
func TestPlacesInOrder(t *testing.T) {
	for seed := range uint64(5) {
		s := newStream(seed, 40)
		for i := range len(s.places) + 1 {
			p := s.at(i)
			if got := At(p.Message(), p.Offset()); got != p {
				t.Fatalf("%x became %x", p, got)
			}
			for j := range len(s.places) + 1 {
				q := s.at(j)
				if p.Before(q) != (i < j) {
					t.Fatalf("seed %d: %x before %x: %v", seed, p, q, p.Before(q))
				}
				if later(p, q) != s.at(max(i, j)) || earlier(p, q) != s.at(min(i, j)) {
					t.Fatalf("seed %d: of %x and %x %x is later and %x earlier", seed, p, q, later(p, q), earlier(p, q))
				}
			}
			if i < len(s.places) && p.After(1, s.last[p]) != s.at(i+1) {
				t.Fatalf("seed %d: behind %x is %x", seed, p, p.After(1, s.last[p]))
			}
		}
	}
}

// Messages can be compared while their numbers are less than 2^31 apart, whatever their offsets.
func TestPlacesFarApart(t *testing.T) {
	for _, first := range []uint32{0, 5, 1<<31 - 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32} {
		for _, ahead := range []uint32{1, 1000, 1<<31 - 1} {
			p, q := At(first, math.MaxUint32), At(first+ahead, 0)
			if !p.Before(q) || q.Before(p) {
				t.Errorf("%x and %x are not in order", p, q)
			}
		}
		if p := At(first, 3); p.After(0, true) != At(first+1, 0) || p.After(4, false) != At(first, 7) || p.NextMessage() != At(first+1, 0) {
			t.Errorf("behind %x", p)
		}
	}
}
