package watch

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// If a call ends after older ones that have yet to run, it sometimes yields to them. Calls that end in order do not yield, and
// interrupted calls do not count.
func TestJumps(t *testing.T) {
	s := NewSleeper(nil)
	var older, newer [10 * mostJumps]*Wait
	for i := range older {
		older[i], newer[i] = NewWait(), NewWait()
		older[i].Join(&s)
		newer[i].Join(&s)
		older[i].Finish(outcome.Success)
	}
	yields := 0
	for _, w := range newer {
		interrupted := NewWait()
		interrupted.Join(&s)
		if interrupted.jumps(&s) {
			t.Error("an interrupted sleep yields")
		}
		if w.Finish(outcome.Success); w.jumps(&s) {
			yields++
		}
	}
	if yields != len(newer)/mostJumps {
		t.Errorf("%d of %d that jumped the queue let others go first, want one in %d", yields, len(newer), mostJumps)
	}
	for _, w := range older {
		if w.jumps(&s) {
			t.Fatal("one of the oldest lets others go first")
		}
	}
	for range 2 * mostJumps {
		w := NewWait()
		w.Join(&s)
		if w.Finish(outcome.Success); w.jumps(&s) {
			t.Error("a call that ended alone lets others go first")
		}
	}
	if n := uint32(len(older) + len(newer) + 2*mostJumps); s.Told() != n {
		t.Errorf("%d calls ended, %d were counted", n, s.Told())
	}
}
