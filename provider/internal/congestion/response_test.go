package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A window that is the least there is for long is tried with more, and falls back when a drain shows that the queue goes.
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
	r.compare(s, 4*minQueueing, 3*minQueueing)
	if !r.tried || r.vain != 1 {
		t.Error("a drain in which the queue stayed does not count")
	}
	r.compare(s, 4*minQueueing, minQueueing)
	if r.tried || r.vain != 0 || r.least(s) != s.leastWindow() {
		t.Error("still tried after a drain in which the queue went")
	}
	for range vainDrains {
		r.tried = true
		r.compare(s, 4*minQueueing, 3*minQueueing)
	}
	if !r.ignored || r.tried {
		t.Error("the delay counts after drains in which the queue stayed")
	}
}
