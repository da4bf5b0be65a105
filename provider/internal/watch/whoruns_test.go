package watch

import "testing"

// TestWhoRunsWhichTurn checks the table against the contract of shards, with one rule for each line.
func TestWhoRunsWhichTurn(t *testing.T) {
	for by := range numCallers {
		row := WhoRuns[by]
		if row[Finished] != NoTurn {
			t.Errorf("caller %d polls an engine that has ended", by)
		}
		if row[Attends] == NoTurn && row[Sleeps] == NoTurn {
			t.Errorf("caller %d never polls", by)
		}
		if by != CallerWatch && row[Sleeps] == NoTurn {
			t.Errorf("caller %d leaves its work to a watcher that sleeps", by)
		}
		if by != CallerRelease && row[Missing] == NoTurn {
			t.Errorf("caller %d leaves its work to a watcher that is missing", by)
		}
		if row[Sleeps] == GlanceTurn || row[Missing] == GlanceTurn {
			t.Errorf("caller %d defers work without a goroutine to do it", by)
		}
		if by != CallerPoll && row[Attends] == GlanceTurn {
			t.Errorf("caller %d defers work, and may never poll again", by)
		}
		if by != CallerPost && (row[Attends] == ServeTurn || row[Sleeps] == ServeTurn) {
			t.Errorf("caller %d serves a queue pair, and has none", by)
		}
	}
	for _, by := range []Caller{CallerRing, CallerRelease, CallerLeave} {
		if WhoRuns[by][Attends] != NoTurn {
			t.Errorf("caller %d polls although the watcher polls by itself", by)
		}
	}
	if WhoRuns[CallerWatch][Attends] != WholeTurn {
		t.Error("the watcher's poll omits something")
	}
}
