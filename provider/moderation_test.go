package provider

import (
	"testing"
	"time"
)

// report adds n results to the first queue.
func (p *pair) report(n int) {
	for range n {
		p.eng[0].results.Complete(p.cq[0], &Result{Kind: KindSend})
	}
	p.runUntilIdle()
}

func TestModeration(t *testing.T) {
	p := newPair(t, 1400)
	q := p.cq[0]
	var told promise
	pends := func(when string) {
		t.Helper()
		if told.times > 0 {
			t.Fatalf("%s: notified", when)
		}
	}
	p.must(q.Moderate(time.Millisecond, 4))
	q.Arm(NotifyAny, told.finish)
	p.report(3)
	pends("three of four")
	p.report(1)
	told.must(t, OutcomeSuccess)

	told = promise{}
	q.Arm(NotifyAny, told.finish)
	p.report(1)
	p.pass(900 * time.Microsecond)
	pends("early")
	p.pass(200 * time.Microsecond)
	told.must(t, OutcomeSuccess)
	if p.eng[0].results.Moderating() {
		t.Error("the engine still has the queue on its list")
	}

	// Results that existed before the notification was requested count. These results start the time limit if the consumer asks for
	// it.
	told = promise{}
	p.report(1)
	q.Arm(NotifyAny, told.finish)
	p.eng[0].Moderate(q)
	pends("armed late")
	p.pass(2 * time.Millisecond)
	told.must(t, OutcomeSuccess)

	// Without a time limit only the number of results triggers the notification. If moderation ends, the notification comes at
	// once.
	told = promise{}
	p.must(q.Moderate(-1, 3))
	q.Arm(NotifyAny, told.finish)
	p.report(2)
	p.pass(time.Second)
	pends("no limit of time")
	p.must(q.Moderate(0, 0))
	told.must(t, OutcomeSuccess)
	if o := q.Moderate(-1, uint32(q.Depth())+1); o != OutcomeParameterMix {
		t.Errorf("no limit at all: %v", o)
	}
	for _, off := range []struct {
		interval time.Duration
		count    uint32
	}{{0, 9}, {time.Second, 0}, {time.Second, 1}} {
		told = promise{}
		p.must(q.Moderate(off.interval, off.count))
		q.Arm(NotifyAny, told.finish)
		p.report(1)
		told.must(t, OutcomeSuccess)
	}
}

// A moderated queue may be resized to fewer results than its notification waits for. It then notifies when it is full, because the
// notification would otherwise come only after an overrun.
func TestModeratedQueueThatShrinksTellsWhenItIsFull(t *testing.T) {
	p := newPair(t, 1400)
	q := p.cq[0]
	p.must(q.Moderate(-1, uint32(q.Depth())))
	var full, filled promise
	var res [8]Result
	q.Arm(NotifyAny, full.finish)
	p.report(4)
	p.must(q.Resize(4)) // the queue is full
	full.must(t, OutcomeSuccess)

	q.Fetch(res[:])
	q.Arm(NotifyAny, filled.finish)
	p.report(3)
	if filled.times > 0 {
		t.Fatal("notified with room for one more")
	}
	p.report(1)
	filled.must(t, OutcomeSuccess)
}

// If a notification comes because there are enough results, its time limit does not carry over: the next notification has its own
// limit, longer or shorter.
func TestEveryModeratedNotificationHasItsOwnTime(t *testing.T) {
	p := newPair(t, 1400)
	q := p.cq[0]
	withhold := func(interval time.Duration) *promise {
		told := new(promise)
		p.must(q.Moderate(interval, 2))
		q.Arm(NotifyAny, told.finish)
		p.report(1)
		return told
	}
	told := withhold(time.Hour)
	p.report(1)
	told.must(t, OutcomeSuccess)

	shorter := withhold(time.Millisecond)
	p.pass(2 * time.Millisecond)
	shorter.must(t, OutcomeSuccess)

	early := withhold(time.Millisecond)
	p.report(1)
	early.must(t, OutcomeSuccess)
	p.pass(900 * time.Microsecond)
	full := withhold(time.Millisecond)
	p.pass(900 * time.Microsecond)
	if full.times > 0 {
		t.Error("notified by the time of the notification before")
	}
	p.pass(200 * time.Microsecond)
	full.must(t, OutcomeSuccess)
}

func TestModerationEndsWithTheWait(t *testing.T) {
	p := newPair(t, 1400)
	q := p.cq[0]
	var told, later promise
	p.must(q.Moderate(time.Millisecond, 4))
	id := q.Arm(NotifyAny, told.finish)
	p.report(1)
	q.CancelWaiter(id, OutcomeCanceled)
	told.must(t, OutcomeCanceled)
	p.pass(2 * time.Millisecond)
	var res [8]Result
	q.Fetch(res[:])
	q.Arm(NotifyAny, later.finish) // the rest of the earlier time limit must not trigger this notification
	p.pass(2 * time.Millisecond)
	if later.times > 0 {
		t.Error("notified without a result")
	}
}
