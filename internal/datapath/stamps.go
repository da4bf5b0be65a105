package datapath

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The kernel stamps packets when they come: those in a ring by CLOCK_MONOTONIC, as programs for BPF read it, and those of sockets by the time of day.

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
