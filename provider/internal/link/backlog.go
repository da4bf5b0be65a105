package link

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Backlogged is a Link whose device can be too busy for what Transmit took. Its owner calls it.
type Backlogged interface {
	// Backlog says how much waits for the device, in the link's own unit, and 0 when nothing does. It costs next to nothing.
	Backlog() int
	// Push gives the device what waits, as far as it takes it now. Transmit does so too.
	Push()
}

// Backlog is what waits in a link for its device, and when to push it.
type Backlog struct {
	device Backlogged // nil for a link without a backlog
	left   int        // as of the last look
	vain   int        // pushes in a row that moved nothing
	due    clock.Time // of the next push, while something is left
}

const (
	// PushInterval is when a busy device is tried again. Nothing says that it takes packets again, so it is asked, and
	// 20 us is what it needs for a few packets.
	PushInterval = 20 * time.Microsecond
	// MaxVainPushes is the number of pushes without progress, a millisecond of them, after which the device counts as stuck. From
	// then on it is tried once in StuckInterval, which costs almost nothing.
	MaxVainPushes = 50
	StuckInterval = time.Millisecond
)

// NewBacklog is that of a link.
func NewBacklog(l Link) (b Backlog) {
	b.device, _ = l.(Backlogged)
	return b
}

// Waiting says whether there is something to push, and when.
func (b *Backlog) Waiting() (due clock.Time, ok bool) { return b.due, b.left > 0 }

// Sent looks at the backlog after packets were added.
func (b *Backlog) Sent(now clock.Time) { b.note(0, now) }

// Push pushes what is due.
func (b *Backlog) Push(now clock.Time) {
	before := b.left
	b.device.Push()
	b.note(before, now)
}

// note looks at the backlog and decides when to push it next. before is what there was before a push, 0 after packets were
// added.
func (b *Backlog) note(before int, now clock.Time) {
	if b.device == nil {
		return
	}
	if b.left = b.device.Backlog(); b.left == 0 {
		b.vain = 0
		return
	}
	switch {
	case before == 0:
	case b.left < before:
		b.vain = 0
	default:
		b.vain = min(b.vain+1, MaxVainPushes)
	}
	b.due = now.Add(PushInterval)
	if b.vain == MaxVainPushes {
		b.due = now.Add(StuckInterval)
	}
}
