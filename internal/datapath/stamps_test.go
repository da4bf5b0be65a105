package datapath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// clocksDiffer is the largest difference between the kernel's clocks and ours in these tests, because they are not read at the same
// time.
const clocksDiffer = 10 * time.Microsecond

// A reading of another kernel clock between two readings of ours lies between them.
func TestOtherClocks(t *testing.T) {
	days := today()
	for name, read := range map[string]func() clock.Time{
		"CLOCK_MONOTONIC": func() clock.Time { return monotonic(uint64(nanoseconds(t, unix.CLOCK_MONOTONIC))) },
		"CLOCK_REALTIME": func() clock.Time {
			ns := nanoseconds(t, unix.CLOCK_REALTIME)
			days.look()
			return days.at(ns)
		},
	} {
		least := time.Hour // a pair of readings with an interruption between them is useless
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
	if at := days.at(0); at != 0 {
		t.Errorf("no stamp is %d", at)
	}
}

func nanoseconds(t *testing.T, clock int32) int64 {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(clock, &ts))
	return ts.Nano()
}

// The offset between two clocks is known, whatever happens between most of their readings.
func TestClocksAreComparedClosely(t *testing.T) {
	now, reads := clock.Time(0), 0
	ours := func() clock.Time {
		if reads++; reads%8 != 4 {
			now += clock.Time(time.Millisecond) // another process had the processor
		}
		now += 40
		return now
	}
	other := func() int64 { return int64(now) + 1000 }
	if got := aheadOf(other, ours); got < 1000-40 || got > 1000+40 {
		t.Errorf("a clock that is 1 µs ahead is %d ns", got)
	}
}

// waitingPackets are packets that wait in a socket while the wall clock is set.
type waitingPackets struct {
	*testing.T
	days    calendar
	now     clock.Time
	ahead   time.Duration // of the wall clock
	waiting []stamped
}

type stamped struct {
	stamp int64
	came  clock.Time
}

func newWaitingPackets(t *testing.T) *waitingPackets {
	w := &waitingPackets{T: t, now: clock.Time(time.Minute), ahead: 400000 * time.Hour}
	w.days = newCalendar(w.day, w.ours)
	return w
}

func (w *waitingPackets) ours() clock.Time { w.now++; return w.now }

func (w *waitingPackets) day() int64 { return int64(w.ours().Add(w.ahead)) }

// come makes a packet arrive after a while.
func (w *waitingPackets) come(after time.Duration) {
	w.now = w.now.Add(after)
	w.waiting = append(w.waiting, stamped{w.day(), w.now})
}

// take receives the first n packets. It returns how many of them have an arrival time, which must be right.
func (w *waitingPackets) take(n int) (told int) {
	w.Helper()
	w.days.look()
	for _, p := range w.waiting[:n] {
		at := w.days.at(p.stamp)
		if at == 0 {
			continue
		}
		if told++; max(at.Sub(p.came), p.came.Sub(at)) > clocksDiffer {
			w.Fatalf("a packet that arrived %v ago has an arrival time of %v ago", w.now.Sub(p.came), w.now.Sub(at))
		}
	}
	w.waiting = w.waiting[n:]
	return told
}

// steps are changes of the wall clock.
var steps = []time.Duration{20 * time.Microsecond, time.Millisecond, 30 * time.Second, time.Hour}

// The wall clock may be set forward or back while packets wait. A packet then has the right arrival time or none. Times are
// reported again once the packets from before the change have been received.
func TestTimeOfDayIsSet(t *testing.T) {
	for _, step := range steps {
		for _, set := range []time.Duration{step, -step} {
			w := newWaitingPackets(t)
			w.come(time.Millisecond)
			if w.take(1) != 1 {
				t.Errorf("set by %v: stamps say nothing before that", set)
			}
			w.come(time.Millisecond)
			w.come(0)
			w.ahead += set
			w.come(0)
			w.take(1)
			w.come(stampDoubt / 2)
			w.take(3)
			w.come(stampDoubt)
			if w.take(1) != 1 {
				t.Errorf("set by %v: stamps say nothing ever after", set)
			}
		}
	}
}

// A stamp in the future comes from a moment when the wall clock was ahead, however short that moment was.
func TestTimeOfDayIsSetAndSetBack(t *testing.T) {
	for _, step := range steps {
		w := newWaitingPackets(t)
		w.ahead += step
		w.come(time.Microsecond)
		w.ahead -= step
		w.come(0)
		if w.take(2) != 1 {
			t.Errorf("set by %v and back: it is not the packet from before, or after, that has a time", step)
		}
	}
}

// A reader may be interrupted between its two readings, or read again after years. Neither counts as a change of the clock.
func TestClocksThatWereNotSet(t *testing.T) {
	now, reads := clock.Time(time.Minute), 0
	ours := func() clock.Time {
		if reads++; reads%20 == 10 {
			now = now.Add(5 * time.Millisecond)
		}
		now++
		return now
	}
	day := func() int64 { return int64(ours()) + 1e18 }
	days := newCalendar(day, ours)
	for range 100 {
		now = now.Add(1000 * time.Hour)
		came, stamp := now, day()
		days.look()
		if at := days.at(stamp); at == 0 || max(at.Sub(came), came.Sub(at)) > 6*time.Millisecond {
			t.Fatalf("a packet that arrived at %v has the arrival time %v", came, at)
		}
	}
}
