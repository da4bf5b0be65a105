package link

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Backlogged is a Link that may still hold packets after Transmit because its device was busy. The engine's owner calls it.
type Backlogged interface {
	// Backlog returns how much waits for the device, in the link's own unit. It is 0 if nothing waits. The call is cheap.
	Backlog() int
	// Push gives waiting packets to the device, as many as the device takes now. Transmit does this, too.
	Push()
}

// Backlog tracks how much waits in a link for its device, and when to push it.
type Backlog struct {
	device Backlogged // nil if the link has no backlog
	left   int        // backlog when it was last read
	vain   int        // successive pushes without progress
	due    clock.Time // time of the next push, if left > 0
}

const (
	// PushInterval is the time until the next push to a busy device. The device does not signal that it has room, so it is polled.
	// It needs about 20 us for a few packets.
	PushInterval = 20 * time.Microsecond
	// MaxVainPushes is the number of pushes without progress, about a millisecond of them, after which the device counts as stuck.
	// Afterwards it is tried once in StuckInterval, which costs almost nothing.
	MaxVainPushes = 50
	StuckInterval = time.Millisecond
)

// NewBacklog returns the Backlog of a link.
func NewBacklog(l Link) (b Backlog) {
	b.device, _ = l.(Backlogged)
	return b
}

// Waiting reports whether packets wait, and when to push them.
func (b *Backlog) Waiting() (due clock.Time, ok bool) { return b.due, b.left > 0 }

// Sent reads the backlog after packets were added.
func (b *Backlog) Sent(now clock.Time) { b.note(0, now) }

// Push pushes waiting packets.
func (b *Backlog) Push(now clock.Time) {
	before := b.left
	b.device.Push()
	b.note(before, now)
}

// note reads the backlog and sets the time of the next push. before is the backlog before a push, or 0 after packets were added.
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
