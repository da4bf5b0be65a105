package provider

import "testing"

// TestWhoRunsWhichTurn holds the table against what shards promise, one rule for each line that a change could break.
func TestWhoRunsWhichTurn(t *testing.T) {
	for by := range numCallers {
		row := whoRuns[by]
		if row[finished] != noTurn {
			t.Errorf("caller %d runs a turn of an engine that runs none any more", by)
		}
		if row[attends] == noTurn && row[sleeps] == noTurn {
			t.Errorf("caller %d never runs a turn", by)
		}
		if by != callerProgress && row[sleeps] == noTurn {
			t.Errorf("caller %d leaves its work to a goroutine that sleeps", by)
		}
		if row[sleeps] == glanceTurn {
			t.Errorf("caller %d puts work off, and nobody is there to do it", by)
		}
		if by != callerPoll && row[attends] == glanceTurn {
			t.Errorf("caller %d puts work off, and may never come back", by)
		}
		if by != callerPost && (row[attends] == serveTurn || row[sleeps] == serveTurn) {
			t.Errorf("caller %d serves a queue pair, and has none", by)
		}
	}
	for _, by := range []caller{callerRing, callerRelease, callerLeave} {
		if whoRuns[by][attends] != noTurn {
			t.Errorf("caller %d runs a turn beside a goroutine whose next turn comes by itself", by)
		}
	}
	if whoRuns[callerProgress][attends] != wholeTurn {
		t.Error("the progress goroutine's turn leaves something out")
	}
}

// countingWaiter counts wake-ups.
type countingWaiter struct {
	Waiter
	woken int
}

func (w *countingWaiter) Wake() { w.woken++ }

// A sleep ends once, and a turn ends it when it leaves work or a deadline before the sleeper's own.
func TestSleeper(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *sleeper)
		want int
	}{
		{"woken twice", func(s *sleeper) { s.wake(); s.wake() }, 1},
		{"nothing left", func(s *sleeper) { s.leave(false, 100) }, 0},
		{"work left", func(s *sleeper) { s.leave(true, 200) }, 1},
		{"an earlier deadline", func(s *sleeper) { s.leave(false, 99) }, 1},
		{"woken and work left", func(s *sleeper) { s.wake(); s.leave(true, 0) }, 1},
	} {
		w := &countingWaiter{}
		s := &sleeper{waiter: w}
		c.do(s)
		if w.woken != 0 || s.attendance() != attends {
			t.Errorf("%s: woken although awake", c.name)
		}
		s.lieDown(100)
		if s.attendance() != sleeps {
			t.Errorf("%s: it lay down and does not sleep", c.name)
		}
		if c.do(s); w.woken != c.want || (s.attendance() == attends) != (c.want > 0) {
			t.Errorf("%s: woken %d times, want %d", c.name, w.woken, c.want)
		}
	}
}
