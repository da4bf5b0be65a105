package datapath

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The kernel stamps packets when they come: those in a ring by CLOCK_MONOTONIC, as programs for BPF read it, and those of sockets by the time of day.

// monotonicAhead is what CLOCK_MONOTONIC reads more than clock.Machine, which goes as fast.
var monotonicAhead = func() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // Linux has that clock
	}
	return ts.Nano() - int64(clock.Machine())
}()

// monotonic is the reading of clock.Machine when CLOCK_MONOTONIC was at so many nanoseconds.
func monotonic(ns uint64) clock.Time { return clock.Time(int64(ns) - monotonicAhead) }

// calendar is what the time of day reads more than clock.Machine, in nanoseconds. It holds for stamps of just now: the time of day may be set.
type calendar int64

// today is the calendar for stamps from before now.
func today() calendar { return calendar(time.Now().UnixNano() - int64(clock.Machine())) }

// at is the reading of clock.Machine when the time of day was so many nanoseconds; zero for a packet without a stamp.
func (c calendar) at(ns int64) clock.Time {
	if ns == 0 {
		return 0
	}
	return clock.Time(ns - int64(c))
}
