package verbs

import (
	"runtime"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// A queue has a result when it is armed, and moderation begins at the same time. In either order the notification comes within the
// interval, without another result.
func TestArmedWhileModerationBegins(t *testing.T) {
	a := open(t)
	for i := range 2000 {
		var q CQ
		q.Init(a, 4)
		qp := a.NewQP(&QPConfig{ReceiveCQ: &q, InitiatorCQ: &q, ReceiveDepth: 1})
		expect(t, "receive", Receive[sge](&qp, 1, nil), provider.OutcomeSuccess)
		qp.Flush()
		moderated, told := make(chan provider.Outcome, 1), make(chan provider.Outcome, 1)
		go func() { moderated <- q.Moderate(time.Millisecond, 4) }()
		for range i % 8 { // moments between the two calls, and before and after them
			runtime.Gosched()
		}
		q.Arm(provider.NotifyAny, func(o provider.Outcome) { told <- o })
		a.Release(q.CQ)
		expect(t, "moderate", <-moderated, provider.OutcomeSuccess)
		select {
		case o := <-told:
			expect(t, "notification", o, provider.OutcomeSuccess)
		case <-time.After(10 * time.Second):
			t.Fatalf("round %d: a result exists, and no notification came", i)
		}
		qp.Close()
		q.Close()
	}
}
