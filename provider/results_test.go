package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// What is complete is shown by the report and not before, to each of several queues.
func TestResultsAreShownTogether(t *testing.T) {
	for _, several := range []bool{false, true} {
		var r results
		queues := []*CQ{NewCQ(4), NewCQ(4), NewCQ(4)}
		for i, q := range queues {
			q.several = several
			for n := range i {
				if !r.complete(q, &Result{RequestContext: uint64(n)}) {
					t.Fatal("no room")
				}
			}
		}
		for _, q := range queues {
			if !q.Empty() {
				t.Error("a result is seen before the report")
			}
		}
		if overran := r.report(1); overran != nil || len(r.touched) != 0 {
			t.Errorf("overran %v, %d queues left", overran, len(r.touched))
		}
		var got [4]Result
		for i, q := range queues {
			if n := q.Fetch(got[:]); n != i {
				t.Errorf("queue %d of several %v shows %d results", i, several, n)
			}
		}
	}
}

// A queue that overran is named once, and the others are still shown.
func TestOverrunIsReportedOnce(t *testing.T) {
	var r results
	full, other := NewCQ(2), NewCQ(2)
	r.complete(other, &Result{})
	for i := range 3 {
		if ok := r.complete(full, &Result{}); ok != (i < 2) {
			t.Fatalf("result %d: %v", i, ok)
		}
	}
	if q := r.report(1); q != full {
		t.Fatalf("%v overran", q)
	}
	if q := r.report(1); q != nil || other.Empty() {
		t.Errorf("%v overran, the other queue is empty: %v", q, other.Empty())
	}
	r.complete(full, &Result{})
	if q := r.report(2); q != nil {
		t.Error("an overrun was reported twice")
	}
}

// The earliest of several notifications that are held back decides when to look, and each is told in its own time.
func TestModeratedQueuesAreToldInTime(t *testing.T) {
	var r results
	var told [2]promise
	queues := [2]*CQ{NewCQ(8), NewCQ(8)}
	for i, q := range queues {
		if o := q.Moderate(time.Duration(2-i)*time.Millisecond, 4); o != OutcomeSuccess {
			t.Fatal(o)
		}
		q.Arm(NotifyAny, told[i].finish)
		r.complete(q, &Result{})
	}
	if r.due() != clock.Never {
		t.Error("something is due before anything was reported")
	}
	const now = clock.Time(time.Hour)
	r.report(now)
	r.moderate(queues[0], now.Add(time.Microsecond)) // its time runs already
	if got := r.due(); got != now.Add(time.Millisecond) {
		t.Errorf("due in %v", got.Sub(now))
	}
	r.tell(r.due())
	if told[0].times != 0 || told[1].times != 1 || r.due() != now.Add(2*time.Millisecond) {
		t.Errorf("told %d and %d times, the next in %v", told[0].times, told[1].times, r.due().Sub(now))
	}
	r.tell(r.due())
	if told[0].times != 1 || r.due() != clock.Never {
		t.Errorf("told %d times, the next in %v", told[0].times, r.due().Sub(now))
	}
}
