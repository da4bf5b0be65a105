package watch

import "testing"

// TestWhoRunsWhichTurn checks the table against the contract of shards, with one rule for each line.
func TestWhoRunsWhichTurn(t *testing.T) {
	for by := range numCallers {
		row := WhoRuns[by]
		if row[Finished] != NoTurn {
			t.Errorf("caller %d runs a turn of an engine that runs none any more", by)
		}
		if row[Attends] == NoTurn && row[Sleeps] == NoTurn {
			t.Errorf("caller %d never runs a turn", by)
		}
		if by != CallerWatch && row[Sleeps] == NoTurn {
			t.Errorf("caller %d leaves its work to a watcher that sleeps", by)
		}
		if by != CallerRelease && row[Missing] == NoTurn {
			t.Errorf("caller %d leaves its work to a watcher that is missing", by)
		}
		if row[Sleeps] == GlanceTurn || row[Missing] == GlanceTurn {
			t.Errorf("caller %d puts work off, and nobody is there to do it", by)
		}
		if by != CallerPoll && row[Attends] == GlanceTurn {
			t.Errorf("caller %d puts work off, and may never come back", by)
		}
		if by != CallerPost && (row[Attends] == ServeTurn || row[Sleeps] == ServeTurn) {
			t.Errorf("caller %d serves a queue pair, and has none", by)
		}
	}
	for _, by := range []Caller{CallerRing, CallerRelease, CallerLeave} {
		if WhoRuns[by][Attends] != NoTurn {
			t.Errorf("caller %d runs a turn beside a watcher whose next turn comes by itself", by)
		}
	}
	if WhoRuns[CallerWatch][Attends] != WholeTurn {
		t.Error("the watcher's turn leaves something out")
	}
}
