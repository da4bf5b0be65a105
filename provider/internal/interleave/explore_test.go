//go:build interleave

package interleave

import (
	"strings"
	"testing"
)

// update adds to a word in two steps.
func update(r *Run) {
	var n Uint32
	for _, name := range []string{"a", "b"} {
		r.Go(name, func() { n.Store(n.Load() + 1) })
	}
	r.Check(func() string {
		if n.Load() != 2 {
			return "an update is lost"
		}
		return ""
	})
}

var explorations = []struct {
	name   string
	bounds Bounds
	start  func(r *Run)
	want   string // the failure; empty for none
}{
	{"a lost update", Bounds{1, 100}, update, "an update is lost"},
	{"a lost update needs an interruption", Bounds{0, 100}, update, ""},
	{"updates under a lock", Bounds{-1, 100}, func(r *Run) {
		var n Uint32
		var mu Mutex
		for _, name := range []string{"a", "b", "c"} {
			r.Go(name, func() {
				mu.Lock()
				n.Store(n.Load() + 1)
				mu.Unlock()
			})
		}
		r.Check(func() string {
			if n.Load() != 3 {
				return "an update is lost"
			}
			return ""
		})
	}, ""},
	{"two locks in two orders", Bounds{1, 100}, func(r *Run) {
		var a, b Mutex
		both := func(first, second *Mutex) func() {
			return func() {
				first.Lock()
				second.Lock()
				second.Unlock()
				first.Unlock()
			}
		}
		r.Go("a", both(&a, &b))
		r.Go("b", both(&b, &a))
	}, "waits for ever"},
	{"a sleeper that looks before it lies down", Bounds{1, 100}, func(r *Run) {
		var work, asleep, woken Bool
		r.Go("sleeper", func() {
			if !work.Load() {
				asleep.Store(true)
				r.Wait(woken.Load)
			}
		})
		r.Go("waker", func() {
			work.Store(true)
			if asleep.Load() {
				woken.Store(true)
			}
		})
	}, "sleeper waits for ever"},
	{"a sleeper that lies down before it looks", Bounds{-1, 100}, func(r *Run) {
		var work, asleep, woken Bool
		r.Go("sleeper", func() {
			asleep.Store(true)
			if !work.Load() {
				r.Wait(woken.Load)
			}
		})
		r.Go("waker", func() {
			work.Store(true)
			if asleep.Load() {
				woken.Store(true)
			}
		})
	}, ""},
	{"a loop that never ends", Bounds{0, 100}, func(r *Run) {
		var n Uint32
		r.Go("loop", func() {
			for n.Load() == 0 {
			}
		})
	}, "no end after 100 steps"},
	{"one that lets the other go first", Bounds{-1, 100}, func(r *Run) {
		var done Bool
		r.Go("loop", func() {
			for !done.Load() {
				Gosched()
			}
		})
		r.Go("other", func() { done.Store(true) })
	}, ""},
	{"a panic", Bounds{0, 100}, func(r *Run) { r.Go("a", func() { panic("boom") }) }, "a panics: boom"},
}

// The explorer finds faults that only some orders show, and reports nothing if all orders are right.
func TestExplore(t *testing.T) {
	for _, c := range explorations {
		res := Explore(c.bounds, c.start)
		if first, _, _ := strings.Cut(res.Failure, "\n"); c.want == "" && first != "" || !strings.HasSuffix(first, c.want) {
			t.Errorf("%s: %q after %d orders, want %q", c.name, first, res.Runs, c.want)
		}
	}
}

// Every order of steps is explored: two goroutines that append to a word produce all possible words.
func TestExploreSeesAllOrders(t *testing.T) {
	words := map[uint32]bool{}
	Explore(Bounds{-1, 100}, func(r *Run) {
		var word Uint32
		for i := range uint32(2) {
			r.Go("writer", func() {
				for range 3 {
					word.Store(word.Load()*2 + i) // two steps, so that one update may overwrite the other
				}
			})
		}
		r.Check(func() string {
			words[word.Load()] = true
			return ""
		})
	})
	want := map[uint32]bool{}
	var orders func(word uint32, at [2]int, read [2]uint32)
	orders = func(word uint32, at [2]int, read [2]uint32) {
		for i := range uint32(2) {
			at, read, word := at, read, word
			if at[i] == 6 {
				continue
			}
			if at[i]%2 == 0 {
				read[i] = word
			} else {
				word = read[i]*2 + i
			}
			at[i]++
			if at == [2]int{6, 6} {
				want[word] = true
			}
			orders(word, at, read)
		}
	}
	orders(0, [2]int{}, [2]uint32{})
	if len(words) != len(want) {
		t.Errorf("%d results, want %d", len(words), len(want))
	}
}
