package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency summarises a distribution in microseconds.
type Latency struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Histogram records durations from 1 ns to 100 s with three significant digits. Recording does not allocate.
type Histogram struct{ h *hdrhistogram.Histogram }

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, int64(100*time.Second), 3)}
}

// Record adds one duration; what is out of range counts as the nearest end of it.
func (h *Histogram) Record(d time.Duration) {
	v := min(max(int64(d), 1), int64(100*time.Second))
	// The value is inside the range by construction, and that is the only error RecordValue has.
	_ = h.h.RecordValue(v)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return uint64(h.h.TotalCount()) }

// Reset forgets everything, keeping the memory.
func (h *Histogram) Reset() { h.h.Reset() }

// Summary returns the distribution with every value divided by divisor: 2 turns round trips into half round trips.
func (h *Histogram) Summary(divisor float64) *Latency {
	if h.h.TotalCount() == 0 {
		return nil
	}
	us := func(ns int64) float64 { return float64(ns) / divisor / 1e3 }
	return &Latency{
		Min:  us(h.h.Min()),
		P50:  us(h.h.ValueAtQuantile(50)),
		P90:  us(h.h.ValueAtQuantile(90)),
		P99:  us(h.h.ValueAtQuantile(99)),
		P999: us(h.h.ValueAtQuantile(99.9)),
		Max:  us(h.h.Max()),
	}
}
