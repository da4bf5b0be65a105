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

// TestHistogramDistribution: a distribution has few points, ascends to 100 %, and is near the true quantiles.
func TestHistogramDistribution(t *testing.T) {
	h := NewHistogram()
	for i := 1; i <= 1_000_000; i++ {
		h.Record(time.Duration(i) * time.Nanosecond)
	}
	got := h.Summary(2).Dist
	if err := saneDist(got); err != nil {
		t.Fatal(err)
	}
	if len(got) < 40 || len(got) > 100 {
		t.Errorf("a million values come down to %d points, want 40 to 100", len(got))
	}
	last := got[len(got)-1]
	if last.Percent != 100 || math.Abs(last.US-500) > 0.5 {
		t.Errorf("the last point is %+v, want 100 %% at 500 µs", last)
	}
	for _, q := range got {
		if want := max(q.Percent/100*500, 0.0005); math.Abs(q.US-want) > want*0.01+0.001 {
			t.Errorf("%.4f %% is %.4f µs, want %.4f", q.Percent, q.US, want)
		}
	}
	h.Reset()
	h.Record(time.Hour)
	one := h.Summary(1)
	if n := len(one.Dist); n == 0 || one.Dist[n-1].US > one.Max {
		t.Errorf("one value: %+v ends above its greatest", one)
	}
}
