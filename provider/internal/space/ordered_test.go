package space

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// anyOrder returns permutations of n indices, by name.
func anyOrder(n int) map[string]func(i int) int {
	random := rand.New(rand.NewPCG(5, 6)).Perm(n)
	return map[string]func(i int) int{
		"first to last": func(i int) int { return i },
		"last to first": func(i int) int { return n - 1 - i },
		"outside in":    func(i int) int { return i%2*(n-1) + (i/2)*(1-i%2*2) },
		"inside out":    func(i int) int { return n/2 + (i/2)*(1-i%2*2) - i%2 },
		"random":        func(i int) int { return random[i] },
	}
}

// checkChunks checks that chunks have a bounded length, that each element can be found, and that there are few chunks: all but one
// have at least each elements.
func checkChunks[T keyed](t *testing.T, name string, l *ordered[T], each int) {
	t.Helper()
	for _, chunk := range l.chunks {
		if len(chunk) > 64 {
			t.Fatalf("%s: one more moves %d others", name, len(chunk))
		}
	}
	if n := len(l.chunks); n > 1+l.len()/each {
		t.Fatalf("%s: %d in %d chunks", name, l.len(), n)
	}
}

// A random sequence of insertions and removals matches a sorted slice, and the number of chunks stays small, also if all but a few
// elements of each chunk are removed.
func TestOrderedAgainstASlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l ordered[Piece]
	var want []Place
	for round := range 30000 {
		grow := 1 + round/3000%2*2 // alternate between growth and shrinkage
		at := Place(1 + rng.IntN(1<<20))
		s := l.search(at)
		i, _ := slices.BinarySearch(want, at)
		if l.has(s) != (i < len(want)) || l.has(s) && l.get(s).To != want[i] {
			t.Fatalf("round %d: %x is not found at %d of %d", round, at, i, len(want))
		}
		if before := l.before(s); (before != nil) != (i > 0) || before != nil && before.To != want[i-1] {
			t.Fatalf("round %d: before %x is %v", round, at, before)
		}
		if rng.IntN(4) >= grow {
			s = l.insert(s, Piece{To: at})
			want = slices.Insert(want, i, at)
			if l.get(s).To != at {
				t.Fatalf("round %d: %x was put where %x is", round, at, l.get(s).To)
			}
		} else if i < len(want) {
			s = l.remove(s)
			want = slices.Delete(want, i, i+1)
			if l.has(s) != (i < len(want)) || l.has(s) && l.get(s).To != want[i] {
				t.Fatalf("round %d: what was behind the one taken out is not found", round)
			}
		}
		checkChunks(t, "at random", &l, 16)
		if l.len() != len(want) {
			t.Fatalf("round %d: %d, want %d", round, l.len(), len(want))
		}
	}
	for s := l.front(); l.has(s); {
		if l.get(s).To != want[0] {
			t.Fatalf("%x comes, want %x", l.get(s).To, want[0])
		}
		s, want = l.remove(s), want[1:]
	}
	if len(want) != 0 || l.len() != 0 {
		t.Errorf("%d are left, want %d", l.len(), len(want))
	}
}
