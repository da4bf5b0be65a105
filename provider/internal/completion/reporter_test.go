package completion

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Completed requests become visible with the report, not before, in each of several queues.
func TestResultsAreShownTogether(t *testing.T) {
	for _, several := range []bool{false, true} {
		var r Reporter
		queues := []*Queue{NewQueue(4), NewQueue(4), NewQueue(4)}
		for i, q := range queues {
			q.several = several
			for n := range i {
				if !r.Complete(q, &Result{RequestContext: uint64(n)}) {
					t.Fatal("no room")
				}
			}
		}
		for _, q := range queues {
			if !q.Empty() {
				t.Error("a result is seen before the report")
			}
		}
		if overran := r.Report(1); overran != nil || len(r.touched) != 0 {
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

// A queue that overran is reported once, and the other queues still get their results.
func TestOverrunIsReportedOnce(t *testing.T) {
	var r Reporter
	full, other := NewQueue(2), NewQueue(2)
	r.Complete(other, &Result{})
	for i := range 3 {
		if ok := r.Complete(full, &Result{}); ok != (i < 2) {
			t.Fatalf("result %d: %v", i, ok)
		}
	}
	if q := r.Report(1); q != full {
		t.Fatalf("%v overran", q)
	}
	if q := r.Report(1); q != nil || other.Empty() {
		t.Errorf("%v overran, the other queue is empty: %v", q, other.Empty())
	}
	r.Complete(full, &Result{})
	if q := r.Report(2); q != nil {
		t.Error("an overrun was reported twice")
	}
}

// The earliest of several moderated notifications determines the next deadline, and each comes at its own time.
func TestModeratedQueuesAreToldInTime(t *testing.T) {
	var r Reporter
	var told [2]int
	queues := [2]*Queue{NewQueue(8), NewQueue(8)}
	for i, q := range queues {
		if o := q.Moderate(time.Duration(2-i)*time.Millisecond, 4); o != outcome.Success {
			t.Fatal(o)
		}
		q.Arm(NotifyAny, func(outcome.Outcome) { told[i]++ })
		r.Complete(q, &Result{})
	}
	if r.Due() != clock.Never {
		t.Error("something is due before anything was reported")
	}
	const now = clock.Time(time.Hour)
	r.Report(now)
	r.Moderate(queues[0], now.Add(time.Microsecond)) // its time limit has already begun
	if got := r.Due(); got != now.Add(time.Millisecond) {
		t.Errorf("due in %v", got.Sub(now))
	}
	r.Tell(r.Due())
	if told[0] != 0 || told[1] != 1 || r.Due() != now.Add(2*time.Millisecond) {
		t.Errorf("notified %d and %d times, the next in %v", told[0], told[1], r.Due().Sub(now))
	}
	r.Tell(r.Due())
	if told[0] != 1 || r.Due() != clock.Never {
		t.Errorf("notified %d times, the next in %v", told[0], r.Due().Sub(now))
	}
}

// user stands for a queue pair that reports to one or two queues.
type user struct {
	queues [2]*Queue
	places [2]int
}

func (u *user) ListedAt(q *Queue) *int {
	if u.queues[0] == q {
		return &u.places[0]
	}
	return &u.places[1]
}

// TestUsersOfQueues adds and removes users of one and two queues at random, and compares the users of each queue with a model.
func TestUsersOfQueues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	queues := [3]*Queue{NewQueue(1), NewQueue(1), NewQueue(1)}
	var here []*user
	for range 2000 {
		if rng.IntN(2) == 0 || len(here) == 0 {
			u := &user{queues: [2]*Queue{queues[rng.IntN(3)], queues[rng.IntN(3)]}}
			for i, q := range u.queues {
				if i == 0 || q != u.queues[0] {
					q.Join(u, false)
				}
			}
			here = append(here, u)
		} else {
			i := rng.IntN(len(here))
			u := here[i]
			u.queues[0].Leave(u)
			if u.queues[1] != u.queues[0] {
				u.queues[1].Leave(u)
			}
			here = slices.Delete(here, i, i+1)
		}
		for _, q := range queues {
			want := 0
			for _, u := range here {
				if slices.Contains(u.queues[:], q) {
					want++
					if q.Users()[*u.ListedAt(q)] != u {
						t.Fatal("a user is not listed where it thinks")
					}
				}
			}
			if len(q.Users()) != want {
				t.Fatalf("%d listed, %d use it", len(q.Users()), want)
			}
		}
	}
}
