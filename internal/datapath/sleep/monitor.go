package sleep

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// monitor keeps sysmon, the monitor of the Go scheduler, at work while goroutines run after a sleep. The task of sysmon is to take the
// processor from a goroutine that computes for more than 10 ms, and to poll for the others meanwhile. It stops when all processors are idle,
// until a timer of the runtime fires or the scheduler hears of a system call. The scheduler does not hear of the system calls for packets, so
// one computation could delay all other goroutines by a minute.
//
// While goroutines run, sysmon wakes up each 20 µs. If the scheduler heard of a call after each sleep, a server with a light load would take
// twice the processor time. So it hears of one call in 10 ms while sleeps follow each other. In between a timer of the runtime ends the stop
// of sysmon.
type monitor struct {
	told  clock.Time  // when tell was called last
	until clock.Time  // the timer fires at this time, or later
	timer *time.Timer // its function does nothing
	tell  func()      // tellScheduler, but in tests
}

// monitorTime is the longest time without sysmon while goroutines run. sysmon itself uses the same time as a bound.
const monitorTime = 10 * time.Millisecond

func newMonitor() monitor {
	m := monitor{timer: time.AfterFunc(time.Hour, func() {}), tell: tellScheduler}
	m.timer.Stop()
	return m
}

// awake handles the end of a sleep.
func (m *monitor) awake(now clock.Time) {
	if now < m.until {
		return
	}
	m.tell()
	if now.Sub(m.told) < 2*monitorTime {
		m.timer.Reset(monitorTime)
		m.until = now.Add(monitorTime)
	}
	m.told = now
}

// tellScheduler makes a short system call that the scheduler hears of.
func tellScheduler() {
	_, _, _ = unix.Syscall(unix.SYS_GETPPID, 0, 0, 0) // getppid(2) always succeeds
}
