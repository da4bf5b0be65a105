package congestion

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A window that stays minimal for long is increased as a trial. It falls back if a drain shows that the queue is its own.
func TestLeastWindowIsTried(t *testing.T) {
	s := newState()
	s.window = s.leastWindow()
	r := &s.response
	hear := func(after time.Duration) {
		b := &batch{Path: Path{Now: clock.Time(time.Second + after)}, round: time.Millisecond}
		r.stuck(s, b)
	}
	hear(0)
	hear(floorTime)
	if r.tried || s.window > s.leastWindow() {
		t.Error("tried at once")
	}
	hear(floorTime + 1)
	if !r.tried || s.window != smallWindow*testPacket || r.least(s) != s.window {
		t.Errorf("not tried: %d bytes, at least %d", s.window, r.least(s))
	}
	r.compare(s, &batch{}, 4*minQueueing, 3*minQueueing)
	if !r.tried || r.vain != tells {
		t.Error("a drain in which the queue stayed does not count")
	}
	r.compare(s, &batch{}, 4*minQueueing, minQueueing)
	if r.tried || r.vain != 0 || r.least(s) != s.leastWindow() {
		t.Error("still tried after a drain in which the queue went")
	}
	for range vainDrains {
		r.tried = true
		r.compare(s, &batch{}, 4*minQueueing, 3*minQueueing)
	}
	if !r.ignored || r.tried {
		t.Error("the delay counts after drains in which the queue stayed")
	}
}

// On long paths fewer round trips suffice to distinguish jitter from a queue, and then the window doubles.
func TestSlowPathsNeedFewerRoundTrips(t *testing.T) {
	for _, queue := range []bool{false, true} {
		random := rand.New(rand.NewPCG(3, 4))
		s := newState()
		s.window = testPacket / leastShare
		now, d := clock.Time(time.Second), 100*time.Millisecond
		for range slowSamples + 3*meanPart {
			if queue {
				d = (d-100*time.Millisecond+5*time.Millisecond)%(100*time.Millisecond) + 100*time.Millisecond
			} else {
				d = 50*time.Millisecond + time.Duration(random.Int64N(int64(50*time.Millisecond))+random.Int64N(int64(50*time.Millisecond)))
			}
			now = now.Add(d)
			b := &batch{Path: Path{Now: now, Smoothed: d}, round: 100 * time.Millisecond, delay: d}
			s.response.sample(s, b, 10*time.Millisecond, 30*time.Millisecond)
		}
		if s.response.ignored == queue || (s.threshold == MaxWindow) == queue && s.window >= tellingWindow*testPacket {
			t.Errorf("queue %v: ignored %v, %d bytes, growth ends at %d", queue, s.response.ignored, s.window, s.threshold)
		}
	}
}

// With jitter a round trip does not predict the next one. With a queue it does, also with noise of half the queue's length on top.
func TestStepsTellJitterFromAQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	spread := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for _, x := range []struct {
		what  string
		next  func(time.Duration) time.Duration
		wants bool
	}{
		{"evenly spread", func(time.Duration) time.Duration { return spread(time.Millisecond) }, true},
		{"normal", func(time.Duration) time.Duration {
			return time.Duration(5e5 + 1e5*random.NormFloat64())
		}, true},
		{"a queue that wanders", func(d time.Duration) time.Duration {
			return max(0, d+spread(100*time.Microsecond)-50*time.Microsecond)
		}, false},
		{"a queue that fills and drains", func(d time.Duration) time.Duration {
			return (d+40*time.Microsecond)%(500*time.Microsecond) + spread(20*time.Microsecond)
		}, false},
	} {
		right := 0
		for range 100 {
			var p steps
			mean, d := time.Duration(0), 500*time.Microsecond
			for n := range 16*meanPart + smallSamples {
				d = x.next(d)
				if mean += (d - mean) / meanPart; n == 16*meanPart {
					p = steps{last: d}
				}
				p.add(d, mean)
			}
			if p.unrelated() == x.wants {
				right++
			}
		}
		if right < 95 {
			t.Errorf("%s: recognized %d times in 100", x.what, right)
		}
	}
}
