package datapath

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The kernel stamps arriving packets: packets in a ring by CLOCK_MONOTONIC, which BPF programs read, and packets of sockets by the time of
// day.

// monotonicAhead is the difference between CLOCK_MONOTONIC and clock.Machine, which run at the same speed.
var monotonicAhead = aheadOf(func() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // Linux always has this clock
	return ts.Nano()
}, clock.Machine)

// aheadOf returns how many nanoseconds another clock is ahead of ours. An interruption between two readings of our clock spoils a pair,
// so the closest of some pairs counts.
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

// monotonic returns the reading of clock.Machine at a reading of CLOCK_MONOTONIC in nanoseconds.
func monotonic(ns uint64) clock.Time { return clock.Time(int64(ns) - monotonicAhead) }

// calendar converts a time stamp in time of day to the arrival time of a packet. The time of day may be set at any moment. The stamp of a
// packet that waited meanwhile is in the old or in the new time, and this cannot be told. The reader of packets calls look once for each
// batch, before it calls at.
type calendar struct {
	day   func() int64 // the time of day, in nanoseconds
	ours  clock.Source // goes as fast
	ahead int64        // how far the time of day is ahead of our clock
	now   clock.Time   // our clock at the last look
	doubt clock.Time   // stamps of packets that came before this time are not used
}

const (
	// clockStep is the smallest difference that counts as a step of the time of day. Two clocks that are read one after the other differ
	// by less.
	clockStep = 10 * time.Microsecond
	// stampDoubt is how long packets may wait that were stamped before the time of day was set.
	stampDoubt = time.Second
)

// newCalendar returns a calendar for stamps from now on.
func newCalendar(day func() int64, ours clock.Source) calendar {
	return calendar{day: day, ours: ours, ahead: aheadOf(day, ours)}
}

// today returns the calendar of the machine.
func today() calendar {
	return newCalendar(func() int64 { return time.Now().UnixNano() }, clock.Machine)
}

// look checks whether the time of day was set since the last look. The packets whose stamps are converted next must have arrived before
// look is called.
func (c *calendar) look() {
	day := c.day()
	c.now = c.ours()
	if within(day-int64(c.now)-c.ahead, clockStep) {
		return
	}
	ahead := aheadOf(c.day, c.ours) // an interruption may separate the two readings
	if !within(ahead-c.ahead, clockStep) {
		c.doubt = c.now.Add(stampDoubt)
	}
	c.ahead = ahead
}

// within reports whether a difference in nanoseconds is at most d, in either direction.
func within(ns int64, d time.Duration) bool { return ns <= int64(d) && ns >= -int64(d) }

// at returns when a packet with a stamp arrived, or zero if it has no usable stamp. Only a clock that was set has a stamp in the future.
func (c *calendar) at(stamp int64) clock.Time {
	at := clock.Time(stamp - c.ahead)
	if stamp == 0 || c.now < c.doubt || at > c.now.Add(clockStep) {
		return 0
	}
	return at
}
