package watch

import "testing"

// countingWaiter counts wake-ups.
type countingWaiter struct {
	Waiter
	woken int
}

func (w *countingWaiter) Wake()  { w.woken++ }
func (w *countingWaiter) Rouse() { w.woken++ }

// A sleep ends once, and a turn ends it when it leaves work or a deadline before the sleeper's own.
func TestSleeper(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Sleeper)
		want int
	}{
		{"woken twice", func(s *Sleeper) { s.Wake(); s.Wake() }, 1},
		{"nothing left", func(s *Sleeper) { s.Leave(false, 100) }, 0},
		{"work left", func(s *Sleeper) { s.Leave(true, 200) }, 1},
		{"an earlier deadline", func(s *Sleeper) { s.Leave(false, 99) }, 1},
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
