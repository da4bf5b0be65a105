package datapath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// clocksDiffer is how much the kernel's clocks may differ from ours, which are not read at the same time.
const clocksDiffer = 10 * time.Microsecond

// What other clocks of the kernel read between two readings of ours lies between them.
func TestOtherClocks(t *testing.T) {
	for name, read := range map[string]func() clock.Time{
		"CLOCK_MONOTONIC": func() clock.Time { return monotonic(uint64(nanoseconds(t, unix.CLOCK_MONOTONIC))) },
		"CLOCK_REALTIME": func() clock.Time {
			ns := nanoseconds(t, unix.CLOCK_REALTIME)
			return today().at(ns)
		},
	} {
		least := time.Hour // who is interrupted between two readings says nothing
		for range 100 {
			before := clock.Machine()
			at := read()
			after := clock.Machine()
			least = min(least, max(before.Sub(at), at.Sub(after)))
		}
		if least > clocksDiffer {
			t.Errorf("%s is %v off at the least", name, least)
		}
	}
	if at := today().at(0); at != 0 {
		t.Errorf("no stamp is %d", at)
	}
}

func nanoseconds(t *testing.T, clock int32) int64 {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(clock, &ts))
	return ts.Nano()
}

// How far two clocks are apart is known whatever happens between most of their readings.
func TestClocksAreComparedClosely(t *testing.T) {
	now, reads := clock.Time(0), 0
	ours := func() clock.Time {
		if reads++; reads%8 != 4 {
			now += clock.Time(time.Millisecond) // somebody else had the processor
		}
		now += 40
		return now
	}
	other := func() int64 { return int64(now) + 1000 }
	if got := aheadOf(other, ours); got < 1000-40 || got > 1000+40 {
		t.Errorf("a clock that is 1 µs ahead is %d ns", got)
	}
}
