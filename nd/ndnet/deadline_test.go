package ndnet

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineTimer: a deadline passes once and on time, however often it was changed before. A removed deadline does not pass.
func TestDeadlineTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sleepers
		var d deadline
		set := func(at time.Time) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return d.set(at, &s)
		}
		check := func(what string, past bool, times int) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if d.past != past || s.woken != times {
				t.Errorf("%s: past %t, woken %d times, want %t and %d", what, d.past, s.woken, past, times)
			}
		}
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for range 3 {
			set(in(time.Second))
		}
		set(in(3 * time.Second))
		time.Sleep(2 * time.Second)
		check("replaced by a later one", false, 0)
		time.Sleep(time.Second)
		check("passed", true, 1)
		set(time.Time{})
		check("taken back", false, 1)
		set(in(time.Second))
		set(time.Time{})
		time.Sleep(2 * time.Second)
		check("taken back in time", false, 1)
		if !set(in(-time.Second)) {
			t.Error("a deadline in the past is not past")
		}
		check("in the past", true, 1)
		set(in(time.Second))
		time.Sleep(time.Second)
		check("passed again", true, 2)

		set(in(time.Hour))
		s.expired(&d) // the timer of an earlier deadline, which waited for the lock
		check("not yet", false, 2)
		time.Sleep(time.Hour)
		check("passed after that", true, 3)
	})
}

// sleepers counts wake-ups.
type sleepers struct {
	mu    sync.Mutex
	woken int
}

func (s *sleepers) expired(d *deadline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.expire() {
		s.woken++
	}
}

// TestDeadlinesAllocateNothing: many programs set a deadline before each Read.
func TestDeadlinesAllocateNothing(t *testing.T) {
	a := pairs(t, networks(t, Config{}), 1)[0][0]
	set := func() { must(t, a.SetReadDeadline(time.Now().Add(time.Hour))) }
	set()
	if n := testing.AllocsPerRun(1000, set); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
