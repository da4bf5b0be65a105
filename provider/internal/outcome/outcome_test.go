package outcome

import (
	"math"
	"slices"
	"testing"
)

// Every outcome has its own name, and an undefined outcome prints as undefined.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range numOutcomes {
		if name := o.Error(); name == "" || seen[name] {
			t.Errorf("outcome %d is called %q", uint8(o), name)
		}
		seen[o.String()] = true
	}
	if got := numOutcomes.String(); got != "unknown outcome" {
		t.Errorf("what is no outcome is called %q", got)
	}
}

// told records which waiter got which outcome, in order.
type told []string

func (l *told) call(name string) Finish {
	return func(o Outcome) { *l = append(*l, name+": "+o.String()) }
}

func (l *told) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*l, want) {
		t.Errorf("told %q, want %q", *l, want)
	}
	*l = nil
}

func TestWaiters(t *testing.T) {
	var w Waiters
	var got told
	first, second, third := w.Add(got.call("first")), w.Add(got.call("second")), w.Add(got.call("third"))
	if first == 0 || first == second || second == third || w.Len() != 3 {
		t.Fatalf("ids %d, %d, %d; %d wait", first, second, third, w.Len())
	}
	if !w.Cancel(second, Canceled) || w.Cancel(second, Canceled) || w.Cancel(0, Canceled) {
		t.Error("a call is canceled once, while it waits")
	}
	got.want(t, "second: canceled")
	w.Finish(Success)
	got.want(t, "first: success", "third: success")
	w.Finish(Success)
	if got.want(t); w.Len() != 0 || w.Cancel(first, Canceled) {
		t.Error("a call that was told waits still")
	}
	if again := w.Add(got.call("again")); again == third {
		t.Error("an id was used again")
	}
}

// A waiter may add or cancel others when it is called. Added waiters wait for the next event, and no waiter is called twice.
func TestWaitersChangeWhileTheyAreTold(t *testing.T) {
	var w Waiters
	var got told
	var last uint64
	w.Add(func(Outcome) {
		w.Add(got.call("added"))
		if w.Cancel(last, Canceled) {
			t.Error("a call that is being told was canceled")
		}
	})
	last = w.Add(got.call("last"))
	w.Finish(Success)
	got.want(t, "last: success")
	w.Finish(Aborted)
	got.want(t, "added: connection aborted")
}

// Repeated waits allocate nothing.
func TestAllocWaiters(t *testing.T) {
	var w Waiters
	fin := func(Outcome) {}
	w.Add(fin)
	w.Finish(Success)
	if n := testing.AllocsPerRun(100, func() { w.Add(fin); w.Cancel(w.Add(fin), Canceled); w.Finish(Success) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// A notification that the count is low comes at once if it is low, and otherwise when it falls below the threshold that was set
// last.
func TestLow(t *testing.T) {
	var l Low
	var got told
	l.Add(got.call("zero"))
	l.Count(0)
	got.want(t)
	l.SetThreshold(2)
	l.Count(2)
	got.want(t)
	l.Count(1)
	got.want(t, "zero: success")

	l.UntilFilled()
	l.Add(got.call("filled"))
	l.Count(1)
	l.Count(0)
	got.want(t)
	l.Count(2)
	got.want(t)
	l.Count(1)
	got.want(t, "filled: success")

	l.UntilFilled()
	l.SetThreshold(5)
	l.Add(got.call("set"))
	l.Count(4)
	got.want(t, "set: success")
	l.SetThreshold(math.MaxInt)
	l.Add(got.call("all"))
	l.Count(math.MaxUint32 - 1)
	got.want(t, "all: success")
}
