package sleep

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A goroutine that computes for long after a sleep does not keep the others waiting, because the monitor of the Go scheduler takes its processor
// away. This monitor stops while all goroutines sleep.
func TestLongComputationAfterASleepIsPreempted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s, _, _ := newTestSleeper(t)
	const long = 5 * monitorTime // the monitor stops
	for _, c := range []struct {
		name   string
		sleeps []time.Duration
	}{
		{"after a long sleep", []time.Duration{long}},
		{"after a short sleep", []time.Duration{long, time.Millisecond}},
		{"after a sleep of which the scheduler does not hear", []time.Duration{long, time.Millisecond, 2 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range c.sleeps {
				s.Wait(clock.Machine().Add(d), false)
			}
			var ran atomic.Bool
			go ran.Store(true)
			for began := clock.Machine(); !ran.Load(); {
				if clock.Machine().Sub(began) > patience/6 {
					t.Fatalf("another goroutine has not run for %v", patience/6)
				}
			}
		})
	}
}

// While sleeps follow each other, the scheduler hears of one in ten milliseconds, and a timer wakes its monitor. Without sleeps soon after,
// it hears of each, and no timer is set.
func TestSchedulerHearsOfFewSleeps(t *testing.T) {
	for _, c := range []struct {
		every  time.Duration
		sleeps int
		heard  int
		timer  bool
	}{
		{time.Millisecond, 1000, 101, true},
		{4 * time.Millisecond, 300, 101, true},
		{15 * time.Millisecond, 100, 100, true},
		{30 * time.Millisecond, 100, 100, false},
	} {
		heard := 0
		m := newMonitor()
		m.tell = func() { heard++ }
		now := clock.Machine()
		for range c.sleeps {
			m.awake(now)
			now = now.Add(c.every)
		}
		if heard != c.heard {
			t.Errorf("%d sleeps of %v: the scheduler heard of %d, want %d", c.sleeps, c.every, heard, c.heard)
		}
		if m.timer.Stop(); m.until != 0 != c.timer {
			t.Errorf("sleeps of %v: a timer was set: %v", c.every, !c.timer)
		}
	}
}
