package completion

import (
	"math"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// A result that came after the last notification and was not fetched satisfies the next one at once, however many results were fetched without a
// notification since the last (ND specification section 9.1 rule 5): programs that poll ask for none for hours.
func TestArmedAfterManyResults(t *testing.T) {
	for _, fetched := range []uint32{0, 1, 4, math.MaxInt32 - 1, math.MaxInt32, 1 << 31, 3 << 30, math.MaxUint32 - 4} {
		for _, last := range []uint32{0, 1 << 31, math.MaxUint32 - 2} { // the results that were there at the last notification
			var r Reporter
			q := NewQueue(4)
			q.seen = last
			q.head.Store(last + fetched)
			q.tail.Store(last + fetched)
			var got [1]Result
			complete := func() {
				t.Helper()
				if !r.Complete(q, &Result{}) || r.Report(1) != nil {
					t.Fatal("the queue overran")
				}
			}
			told := 0
			arm := func() { q.Arm(NotifyAny, func(outcome.Outcome) { told++ }) }
			if arm(); told != 0 {
				t.Errorf("%d results fetched since the one before %d: none notifies", fetched, last)
			}
			q.CancelWaiters(outcome.Canceled)
			told = 0
			complete()
			if arm(); told != 1 {
				t.Errorf("%d results fetched since the one before %d: a result that waits notifies %d times", fetched, last, told)
			}
			if arm(); told != 1 {
				t.Errorf("%d results fetched since the one before %d: a result notifies twice", fetched, last)
			}
			if q.Fetch(got[:]); told != 1 {
				t.Error("fetching notifies")
			}
			if complete(); told != 2 {
				t.Errorf("%d results fetched since the one before %d: the next result does not notify", fetched, last)
			}
		}
	}
}

// Without a limit of time a queue that is full tells, also when its consumer left results in it that it was told of before: nothing else would tell before it
// overran.
func TestModeratedQueueTellsWhenItIsFull(t *testing.T) {
	for left := range 4 {
		var r Reporter
		q := NewQueue(4)
		complete := func(n int) {
			t.Helper()
			for range n {
				if !r.Complete(q, &Result{}) || r.Report(1) != nil {
					t.Fatal("the queue overran")
				}
			}
		}
		if o := q.Moderate(-1, 4); o != outcome.Success {
			t.Fatal(o)
		}
		told := 0
		arm := func() { q.Arm(NotifyAny, func(outcome.Outcome) { told++ }) }
		arm()
		if complete(4); told != 1 {
			t.Fatal("four results do not notify")
		}
		q.Fetch(make([]Result, 4-left))
		arm()
		if complete(3 - left); told != 1 {
			t.Errorf("%d left: notified with room for one more", left)
		}
		if complete(1); told != 2 {
			t.Errorf("%d left: a full queue tells %d times", left, told-1)
		}
	}
}
