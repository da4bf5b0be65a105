package datapath

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The kernel stamps arriving packets: packets in a ring by CLOCK_MONOTONIC, which BPF programs read, and packets of sockets by the time of
// day.

// monotonicAhead is what CLOCK_MONOTONIC reads more than clock.Machine, which goes as fast.
var monotonicAhead = aheadOf(func() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // Linux has that clock
	return ts.Nano()
}, clock.Machine)

// aheadOf is what a clock, in nanoseconds, reads more than ours. An interruption between two readings of ours says nothing, so that of some pairs the closest counts.
func aheadOf(other func() int64, ours clock.Source) (ahead int64) {
	const readings = 16
	closest := time.Hour
	for range readings {
		before := ours()
		at := other()
		if apart := ours().Sub(before); apart < closest {
			closest, ahead = apart, at-int64(before)-int64(apart/2)
		}
	}
	return ahead
}

// monotonic is the reading of clock.Machine when CLOCK_MONOTONIC was at so many nanoseconds.
func monotonic(ns uint64) clock.Time { return clock.Time(int64(ns) - monotonicAhead) }

// calendar converts a stamp with the time of day to the arrival time of a packet. The time of day may be set at any moment. A packet that
// waited meanwhile has a stamp of the old or of the new time, and nobody knows which. The reader of packets checks once for each batch,
// before it asks.
type calendar struct {
	day   func() int64 // the time of day, in nanoseconds
	ours  clock.Source // goes as fast
	ahead int64        // what the time of day reads more than ours
	now   clock.Time   // of the last look
	doubt clock.Time   // stamps say nothing before this
}

const (
	// clockStep is the smallest step of the time of day that counts: two clocks that are read one after the other do not differ by more.
	clockStep = 10 * time.Microsecond
	// stampDoubt is how long packets may wait that were stamped before the time of day was set.
	stampDoubt = time.Second
)

// newCalendar is for stamps from now on.
func newCalendar(day func() int64, ours clock.Source) calendar {
	return calendar{day: day, ours: ours, ahead: aheadOf(day, ours)}
}

// today is the calendar of the machine.
func today() calendar {
	return newCalendar(func() int64 { return time.Now().UnixNano() }, clock.Machine)
}

// look sees whether the time of day was set since the last look. Packets whose stamps are asked for then must have come.
func (c *calendar) look() {
	day := c.day()
	c.now = c.ours()
	if within(day-int64(c.now)-c.ahead, clockStep) {
		return
	}
	ahead := aheadOf(c.day, c.ours) // the two readings may have been interrupted
	if !within(ahead-c.ahead, clockStep) {
		c.doubt = c.now.Add(stampDoubt)
	}
	c.ahead = ahead
}

// within says whether so many nanoseconds are no more than d, in either direction.
func within(ns int64, d time.Duration) bool { return ns <= int64(d) && ns >= -int64(d) }

// at is when a packet with a stamp came; zero where it has none, or one that says nothing. Only a clock that was set reads what is still to come.
func (c *calendar) at(stamp int64) clock.Time {
	at := clock.Time(stamp - c.ahead)
	if stamp == 0 || c.now < c.doubt || at > c.now.Add(clockStep) {
		return 0
	}
	return at
}
