package bench

import (
	"math"
	"testing"
	"time"
)

func TestHistogramSummary(t *testing.T) {
	h := NewHistogram()
	if h.Summary(1) != nil {
		t.Error("an empty histogram has a summary")
	}
	for i := 1; i <= 1000; i++ {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	got := h.Summary(2)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"min", got.Min, 0.5},
		{"p50", got.P50, 250},
		{"p90", got.P90, 450},
		{"p99", got.P99, 495},
		{"p99.9", got.P999, 499.5},
		{"max", got.Max, 500},
	} {
		if math.Abs(c.got-c.want) > c.want*0.002 {
			t.Errorf("%s is %g µs, want %g within three digits", c.name, c.got, c.want)
		}
	}
	if h.Count() != 1000 {
		t.Errorf("count is %d, want 1000", h.Count())
	}
	h.Record(-5)
	h.Record(time.Hour)
	if h.Count() != 1002 {
		t.Error("values out of range were not counted")
	}
}

func TestHistogramRecordDoesNotAllocate(t *testing.T) {
	h := NewHistogram()
	if n := testing.AllocsPerRun(1000, func() { h.Record(1234) }); n != 0 {
		t.Errorf("Record allocates %g times", n)
	}
}
