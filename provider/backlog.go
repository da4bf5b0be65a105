package provider

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

// backlog is what waits in a link for its device, and when to push it.
type backlog struct {
	device Backlogged // nil for a link without a backlog
	left   int        // as of the last look
	vain   int        // pushes in a row that moved nothing
	due    clock.Time // of the next push, while something is left
}

const (
	// pushInterval is when a busy device is tried again. Nothing says that it takes packets again, so it is asked, and
	// 20 us is what it needs for a few packets.
	pushInterval = 20 * time.Microsecond
	// maxVainPushes is after how many pushes that moved nothing, a millisecond of them, the device counts as stuck: it is tried once in
	// stuckInterval from then on, which costs next to nothing.
	maxVainPushes = 50
	stuckInterval = time.Millisecond
)

// push pushes what is due.
func (b *backlog) push(now clock.Time) {
	before := b.left
	b.device.Push()
	b.note(before, now)
}

// note looks at the backlog and decides when to push it next. before is what there was before a push, 0 after packets were
// added.
func (b *backlog) note(before int, now clock.Time) {
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
		b.vain = min(b.vain+1, maxVainPushes)
	}
	b.due = now.Add(pushInterval)
	if b.vain == maxVainPushes {
		b.due = now.Add(stuckInterval)
	}
}
