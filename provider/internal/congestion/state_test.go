package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// signals feeds a controller with round trips, a batch each.
func signals(s *State, packets int, base time.Duration, delays ...time.Duration) {
	for _, d := range delays {
		now := s.limitedAt.Add(d)
		s.limitedAt = now
		(&Delay{}).acked(s, &batch{Path: Path{Now: now, Base: base, Smoothed: d}, packets: packets, delay: d, round: d})
		s.apply(d)
	}
}

func newState() *State {
	s := new(State)
	s.Reset(&Delay{})
	s.limitedAt = clock.Time(time.Second)
	return s
}

// Slow start doubles until the delay is over the target, then a packet is added per round trip.
func TestWindowGrows(t *testing.T) {
	const base = 100 * time.Microsecond
	s := newState()
	signals(s, 16, base, base)
	if s.window != 32*Unit {
		t.Errorf("%d packets after the first round trip", s.window/Unit)
	}
	s.threshold = s.window
	signals(s, 32, base, base)
	if d := s.window - 33*Unit; d < -Unit/8 || d > Unit/8 {
		t.Errorf("%d/65536 packets after a round trip of avoidance", s.window)
	}
	s.limitedAt = 0
	before := s.window
	(&Delay{}).acked(s, &batch{Path: Path{Now: clock.Time(5 * time.Second), Base: base, Smoothed: base}, packets: 8, delay: base, round: base})
	if s.window != before {
		t.Error("a window that held nothing back grew")
	}
}

// The decrease is 0.8 of how far the delay is over the target, at most half, and at most once per round trip.
func TestWindowShrinks(t *testing.T) {
	const base = 100 * time.Microsecond
	for _, over := range []time.Duration{10, 20, 100, 400} {
		s := newState()
		s.window = 4 * Unit
		want := target(base, 0, scale(s.window))
		d := want * (100 + over) / 100
		signals(s, 1, base, d)
		keep := max(1000-800*int(d-want)/int(d), 500)
		if got := s.window * 1000 / (4 * Unit); got < keep-2 || got > keep+2 {
			t.Errorf("%d %% over the target %d/1000 of the window are left, want %d", over, got, keep)
		}
		left := s.window
		(&Delay{}).acked(s, &batch{Path: Path{Now: s.limitedAt.Add(d / 2), Base: base, Smoothed: d}, packets: 1, delay: d, round: d})
		if s.window != left {
			t.Error("it shrank twice in a round trip")
		}
	}
}

// One round trip of milliseconds is somebody off its core and does not count as much as it is long.
func TestOneLongRoundTripIsNoQueue(t *testing.T) {
	const base = 20 * time.Microsecond
	s := newState()
	s.window = 64 * Unit
	signals(s, 8, base, base, base, base, base, base, base, base, 5*time.Millisecond)
	if s.window < 64*Unit {
		t.Errorf("%d packets are left of 64", s.window/Unit)
	}
}

// Steps below a packet do not depend on the window, so that a decrease in proportion to it makes shares equal.
func TestSmallWindowsGrowAlike(t *testing.T) {
	for _, from := range []int{MinWindow, Unit / 2, Unit - 1} {
		s := State{window: from}
		s.grow(1)
		if s.window != from+Unit {
			t.Errorf("one acknowledgement makes %d of %d", s.window, from)
		}
	}
}

func TestFlowScaling(t *testing.T) {
	last := time.Hour
	for w := Unit / 16; w <= MaxWindow; w *= 2 {
		now := target(100, 0, scale(w))
		if now > last || now < 100+minQueueing || now > 100+2*minQueueing {
			t.Errorf("window %d/65536: target %v, of a smaller window %v", w, now, last)
		}
		last = now
	}
	for v := range 1 << 12 {
		if r := isqrt(v + 1); (r-1)*(r-1) > v+1 || (r+1)*(r+1) <= v+1 {
			t.Fatalf("root of %d: %d", v+1, r)
		}
	}
}

// Loss halves the window when there is a queue, or when it is heavy; otherwise the window gives up what was lost.
func TestLossAndTheWindow(t *testing.T) {
	for _, x := range []struct {
		delay, lost, good, want int
	}{{50, 1, 99, 99}, {50, 20, 80, 50}, {500, 1, 99, 50}} {
		s := newState()
		s.window = 100 * Unit
		s.delay = delaySignal{filtered: time.Duration(x.delay) * time.Microsecond, target: 100 * time.Microsecond}
		(&Delay{}).lost(s, x.lost, x.good)
		if got := (s.window + Unit/2) / Unit; got != x.want {
			t.Errorf("%+v: window %d", x, got)
		}
	}
}

func TestTimeOutAndUndo(t *testing.T) {
	s := newState()
	s.window = 40 * Unit
	(&Delay{}).timedOut(s)
	(&Delay{}).timedOut(s)
	s.apply(0)
	if s.Packets != 1 || s.threshold != 20*Unit {
		t.Errorf("window %d, slow start to %d", s.Packets, s.threshold/Unit)
	}
	if !s.Undo() || s.Packets != 40 || s.Undo() {
		t.Errorf("window %d after the undo", s.Packets)
	}
}

// The receiver's load byte: above 128 the window shrinks in proportion, below it grows by a packet, once per round trip.
func TestEndpointWindow(t *testing.T) {
	var w endpoint
	w.reset()
	now := clock.Time(time.Second)
	for _, x := range []struct {
		load uint8
		want int
	}{{0, 256}, {128, 256}, {255, 129}, {192, 97}, {128, 98}, {0, 99}} {
		now += 1000
		w.heard(now, x.load, 100)
		w.heard(now, x.load, 100)
		if got := (w.window + Unit - 1) / Unit; got != x.want {
			t.Errorf("load %d: window %d, want %d", x.load, got, x.want)
		}
	}
	for range 20 {
		now += 1000
		w.heard(now, 255, 100)
	}
	if w.window != Unit {
		t.Errorf("the least window is %d", w.window)
	}
}

// A path that became longer shows the same round trip again and again; a queue of many others, as long, does not.
func TestQueueOfOthersIsNoLongerPath(t *testing.T) {
	const long = 2 * time.Millisecond
	for _, c := range []struct {
		name   string
		spread time.Duration // of the round trips
		want   bool
	}{{"path", minQueueing, true}, {"queue", 8 * minQueueing, false}} {
		var s delaySignal
		found := time.Duration(0)
		for i := range 4 * stuckRounds {
			found = max(found, s.floored(long+time.Duration(i*7%16)*c.spread/15))
		}
		if (found > 0) != c.want || found > long {
			t.Errorf("%s: a least round trip of %v", c.name, found)
		}
	}
}
