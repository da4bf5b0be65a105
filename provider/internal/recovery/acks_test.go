package recovery

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// An acknowledgement that nobody asked for waits for data or for its timer. One after ACKREQ waits for some polls. One after a gap
// or a duplicate leaves at once, with all ranges.
func TestAcksAreSaidInTime(t *testing.T) {
	var a Acks
	if speak, wait := a.Turn(); speak || wait || a.Due() != 0 {
		t.Error("something is said about nothing")
	}
	at := clock.Time(77)
	if u := a.Accepted(false, false, false, 3, at); u != AckDelayed || a.Due() != at {
		t.Errorf("the first packet: %d, at %d", u, a.Due())
	}
	if u := a.Accepted(false, false, false, 3, at+1); u != AckNone || a.Due() != at {
		t.Errorf("the second packet: %d, at %d", u, a.Due())
	}
	if u := a.Accepted(false, false, false, 3, at+2); u != AckAtOnce || a.Due() != 0 {
		t.Errorf("the third packet: %d", u)
	}
	if speak, _ := a.Turn(); !speak {
		t.Error("what is due at once is not said")
	}
	a.Left(true, false)
	if a.Urgency() != AckNone {
		t.Error("what data took along is said again")
	}
	a.Accepted(false, false, false, 3, at)
	if u := a.Accepted(false, false, false, 3, at-1); u != AckDelayed || a.Due() != at-1 {
		t.Errorf("a packet that may wait less long: %d, at %d", u, a.Due())
	}
	a.Left(true, false)
	a.Accepted(true, false, false, 3, at)
	for n := 0; ; n++ {
		speak, wait := a.Turn()
		if speak == wait {
			t.Fatal("neither now nor later, or both")
		}
		if speak {
			if n != ackTurns {
				t.Errorf("after %d turns", n)
			}
			break
		}
	}
	for name, cause := range map[string]func(a *Acks){
		"gap": func(a *Acks) { a.Accepted(false, true, false, 3, at) },
		"load": func(a *Acks) {
			for range loadedEvery {
				a.Accepted(false, false, true, 64, at)
			}
		},
		"mark": func(a *Acks) { a.ExplainLater(); a.Raise(AckAtOnce) },
	} {
		a := Acks{}
		cause(&a)
		if a.Left(true, false); a.Urgency() != AckAtOnce || !a.Explains() {
			t.Errorf("%s: data without all of it took a whole ACK along", name)
		}
		whole := a
		if whole.Left(true, true); whole.Urgency() != AckNone || whole.Explains() {
			t.Errorf("%s: said again behind data that said it", name)
		}
		if a.Said(); a.Urgency() != AckNone {
			t.Errorf("%s: said twice", name)
		}
	}
	a = Acks{}
	if a.Accepted(false, false, true, 64, at); a.Urgency() != AckDelayed {
		t.Error("load is told before its time")
	}
}

// Each mark counts once, whether a flag in a data packet, a report, or both contain it.
func TestMarksAreCountedOnce(t *testing.T) {
	var m Marks
	for i, step := range []struct{ marked, several, changed bool }{
		{false, false, false}, {true, false, true}, {true, true, false}, {false, false, true},
	} {
		if several, changed := m.Came(step.marked); several != step.several || changed != step.changed {
			t.Errorf("packet %d: several %v, changed %v", i, several, changed)
		}
	}
	if m.Count() != 2 || !m.Owed() {
		t.Errorf("%+v", m)
	}
	if m.Told(); m.Owed() {
		t.Error("reported twice")
	}
	m.Echoed()
	m.Echoed()
	for _, step := range []struct {
		sum   uint32
		fresh int
	}{{1, 0}, {1, 0}, {5, 3}, {4, 0}, {6, 1}} {
		if got := m.Reported(step.sum); got != step.fresh {
			t.Errorf("a sum of %d: %d are new, want %d", step.sum, got, step.fresh)
		}
	}
}
