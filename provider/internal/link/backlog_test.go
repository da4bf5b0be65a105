package link

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// device accepts some of the waiting packets at each push.
type device struct {
	Link
	waits, takes, pushes int
}

func (d *device) Backlog() int { return d.waits }

func (d *device) Push() {
	d.pushes++
	d.waits -= min(d.takes, d.waits)
}

// A device that makes progress is pushed again soon. A device that made no progress for a while is pushed rarely, and often again
// after its first packet.
func TestBacklogIsPushedInTime(t *testing.T) {
	d := &device{waits: 10, takes: 1}
	b := NewBacklog(d)
	now := clock.Time(time.Hour)
	b.Sent(now)
	step := func(want time.Duration) {
		t.Helper()
		now = b.due
		b.Push(now)
		if got := b.due.Sub(now); got != want {
			t.Fatalf("%d pushes, %d left: due in %v, want %v", d.pushes, b.left, got, want)
		}
	}
	step(PushInterval)
	d.takes = 0
	for range MaxVainPushes - 1 {
		step(PushInterval)
	}
	step(StuckInterval)
	b.Sent(now) // a packet was added, which is no progress
	step(StuckInterval)
	d.takes = 1
	step(PushInterval)
	d.takes = 10
	b.Push(now)
	if b.left != 0 || b.vain != 0 {
		t.Errorf("%d left, %d pushes without progress", b.left, b.vain)
	}
	none := NewBacklog(struct{ Link }{})
	none.Sent(now)
	if none.left != 0 {
		t.Error("a link without a backlog has one")
	}
}
