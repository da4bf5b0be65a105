package completion

import (
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// If a result arrived after the last notification and was not fetched, the next notification comes at once (ND specification
// section 9.1 rule 5). This holds however many results were fetched meanwhile: programs that poll request no notification for
// hours.
func TestArmedAfterManyResults(t *testing.T) {
	for _, fetched := range []uint32{0, 1, 4, math.MaxInt32 - 1, math.MaxInt32, 1 << 31, 3 << 30, math.MaxUint32 - 4} {
		for _, last := range []uint32{0, 1 << 31, math.MaxUint32 - 2} { // the number of results at the last notification
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

// Without a time limit a full queue notifies, also if its consumer left results in it after an earlier notification. Otherwise the
// notification would come only after an overrun.
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
			t.Errorf("%d left: a full queue notifies %d times", left, told-1)
		}
	}
}

// If one of several notifications is canceled, its level is canceled too. The others then wait only for their own levels, with and
// without moderation (ND specification section 9.1 rule 7).
func TestCanceledNotificationTakesItsLevelAlong(t *testing.T) {
	plain, solicited, failed := Result{}, Result{Solicited: true}, Result{Outcome: outcome.Canceled}
	for _, c := range []struct {
		name      string
		waits     []NotifyLevel // the first one is canceled
		result    Result
		told      int
		moderated bool
	}{
		{"solicited behind any, plain", []NotifyLevel{NotifyAny, NotifySolicited}, plain, 0, false},
		{"solicited behind any, solicited", []NotifyLevel{NotifyAny, NotifySolicited}, solicited, 1, false},
		{"solicited behind any, failed", []NotifyLevel{NotifyAny, NotifySolicited}, failed, 1, false},
		{"errors behind any, failed", []NotifyLevel{NotifyAny, NotifyErrors}, failed, 0, false},
		{"errors behind solicited, solicited", []NotifyLevel{NotifySolicited, NotifyErrors}, solicited, 0, false},
		{"any behind solicited, plain", []NotifyLevel{NotifySolicited, NotifyAny}, plain, 1, false},
		{"any behind any, plain", []NotifyLevel{NotifyAny, NotifyAny, NotifySolicited}, plain, 2, false},
		{"solicited behind any, plain withheld", []NotifyLevel{NotifyAny, NotifySolicited}, plain, 0, true},
		{"solicited behind any, solicited withheld", []NotifyLevel{NotifyAny, NotifySolicited}, solicited, 1, true},
	} {
		var r Reporter
		q := NewQueue(4)
		complete := func(now clock.Time, res Result) {
			t.Helper()
			if !r.Complete(q, &res) || r.Report(now) != nil {
				t.Fatal("the queue overran")
			}
		}
		told := 0
		var ids []uint64
		for _, level := range c.waits {
			ids = append(ids, q.Arm(level, func(o outcome.Outcome) {
				if o == outcome.Success {
					told++
				}
			}))
		}
		if c.moderated { // the result exists, and the notification comes later
			if o := q.Moderate(time.Millisecond, 4); o != outcome.Success {
				t.Fatal(o)
			}
			complete(1, c.result)
			q.CancelWaiter(ids[0], outcome.Canceled)
			r.Tell(clock.Time(1).Add(time.Millisecond))
		} else {
			q.CancelWaiter(ids[0], outcome.Canceled)
			complete(1, c.result)
		}
		if told != c.told {
			t.Errorf("%s: %d were notified, want %d", c.name, told, c.told)
		}
		if waits := len(c.waits) - 1 - c.told; q.Waiting() != waits || q.Armed() != (waits > 0) {
			t.Errorf("%s: %d wait, want %d; armed %v", c.name, q.Waiting(), waits, q.Armed())
		}
	}
}
