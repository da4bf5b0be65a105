package credit

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A receive limit is repeated after a round trip and a half, and then after twice as long each time. It is repeated often enough
// for a peer that is descheduled for 100 ms.
func TestPromiseIsToldAgain(t *testing.T) {
	for _, trip := range []time.Duration{0, 40 * time.Microsecond, 10 * time.Millisecond} {
		var w Wait
		w.Promise()
		start := clock.Time(1000)
		now, gap := start, max(trip+trip/2, minGap)
		for n := 1; w.Tell(now, trip); n++ {
			if due := w.Due(time.Hour); due != now.Add(min(gap, maxGap)) {
				t.Fatalf("round trip %v, time %d: again after %v, not %v", trip, n, due.Sub(now), gap)
			}
			now, gap = w.Due(time.Hour), 2*gap
		}
		if d := now.Sub(start); d < 100*time.Millisecond {
			t.Errorf("round trip %v: repeated for %v", trip, d)
		}
	}
}

// A blocked sender sends PING after half a round trip and then less and less often.
func TestQuestionsBecomeSeldom(t *testing.T) {
	var a Ask
	const trip = 2 * time.Millisecond
	now := clock.Time(5000)
	a.Begin(now, trip)
	for i, gap := range []time.Duration{1, 2, 4, 8, 16, 20, 20, 20} {
		gap *= time.Millisecond
		if a.At() != now.Add(gap) {
			t.Fatalf("question %d after %v, not %v", i, a.At().Sub(now), gap)
		}
		now = a.At()
		a.Next(now, trip, false)
	}
	if a.Since() != 5000 || !a.Waiting() {
		t.Errorf("it waits since %d", a.Since())
	}
	a.End()
	if a.Waiting() {
		t.Error("it waits after its end")
	}
}

// The next deadline follows from which side waits for which event.
func TestStatesOfAWait(t *testing.T) {
	const patience = 2 * time.Second
	var w Wait
	if w.Due(patience) != 0 || w.Unpromised() {
		t.Error("somebody waits from the beginning")
	}
	w.Ask()
	if w.State() != Asked || w.Due(patience) != 0 || !w.Unpromised() {
		t.Errorf("after a question: %+v", w)
	}
	if !w.Starve(7000) || w.Starve(8000) || w.Due(patience) != clock.Time(7000).Add(patience) || !w.Unpromised() {
		t.Errorf("after a SEND without a receive: %+v", w)
	}
	w.Ask()
	if w.State() != Starved {
		t.Error("a question ends starvation")
	}
	w.Promise()
	if w.State() != Promised || w.Unpromised() {
		t.Errorf("after a promise: %+v", w)
	}
	w.Ask()
	if w.State() != Promised {
		t.Error("a question takes a promise back")
	}
}
