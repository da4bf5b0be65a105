package watch

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// countingWaiter counts wake-ups.
type countingWaiter struct {
	Waiter
	woken int
	until clock.Time
}

func (w *countingWaiter) Wake()  { w.woken++ }
func (w *countingWaiter) Rouse() { w.woken++ }

func (w *countingWaiter) Shorten(until clock.Time) { w.until = until }

// A sleep ends once. A poll ends it if the poll leaves work, or a deadline before the sleeper's own.
func TestSleeper(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Sleeper)
		want int
	}{
		{"woken twice", func(s *Sleeper) { s.Wake(); s.Wake() }, 1},
		{"nothing left", func(s *Sleeper) { s.Leave(false, 100) }, 0},
		{"work left", func(s *Sleeper) { s.Leave(true, 200) }, 1},
		{"an earlier deadline", func(s *Sleeper) { s.Leave(false, 99) }, 0},
		{"woken and work left", func(s *Sleeper) { s.Wake(); s.Leave(true, 0) }, 1},
	} {
		w := &countingWaiter{}
		sleeper := NewSleeper(w)
		s := &sleeper
		c.do(s)
		if w.woken != 0 || s.Asleep() {
			t.Errorf("%s: woken although awake", c.name)
		}
		s.LieDown(100)
		if !s.Asleep() {
			t.Errorf("%s: it lay down and does not sleep", c.name)
		}
		if c.do(s); w.woken != c.want || s.Asleep() != (c.want == 0) {
			t.Errorf("%s: woken %d times, want %d", c.name, w.woken, c.want)
		}
	}
}

// A deadline before the sleeper's own changes its timer, and does not wake it.
func TestLeaveShortensASleep(t *testing.T) {
	w := &countingWaiter{}
	s := NewSleeper(w)
	s.LieDown(100)
	s.Leave(false, 100)
	if w.until != 0 {
		t.Errorf("shortened to %v for a deadline that is no earlier", w.until)
	}
	s.Leave(false, 60)
	s.Leave(false, 80)
	if w.until != 60 || s.Until() != 60 || w.woken != 0 || !s.Asleep() {
		t.Errorf("shortened to %v, until %v, woken %d times; want 60, and asleep", w.until, s.Until(), w.woken)
	}
}
