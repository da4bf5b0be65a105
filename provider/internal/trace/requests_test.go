package trace

import (
	"testing"
	"time"
)

// TestLatencyClasses: each time belongs to the class with the least bound that is not exceeded, also at the bounds and beyond the
// last.
func TestLatencyClasses(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int
	}{{-1, 0}, {0, 0}, {1, 0}, {time.Microsecond, 0}, {time.Microsecond + 1, 1}, {2 * time.Microsecond, 1}, {2*time.Microsecond + 1, 2}, {time.Millisecond, 10}, {time.Hour, NumLatencies - 1}} {
		if got := latencyClass(c.d); got != c.want {
			t.Errorf("%v is in class %d, want %d", c.d, got, c.want)
		}
	}
	var s Stats
	for i := range NumLatencies - 1 {
		s.Took(LatencyBound(i))
	}
	for i := range NumLatencies - 1 {
		if s.Latencies[i] != 1 {
			t.Errorf("class %d has %d", i, s.Latencies[i])
		}
	}
	if s.LatencyNanos != uint64(time.Microsecond)*(1<<(NumLatencies-1)-1) {
		t.Errorf("%d ns", s.LatencyNanos)
	}
}
