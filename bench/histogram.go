package bench

import (
	"fmt"
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

	Dist []Quantile `json:"dist,omitempty"` // the whole distribution, ascending; missing in older reports
}

// Quantile is one point of a distribution: this percentage of the values is at most US microseconds.
type Quantile struct {
	Percent float64 `json:"percent"`
	US      float64 `json:"us"`
}

// distTicks is the number of points between a quantile and the quantile half as far from 100 %. Four points give a smooth curve,
// and about 80 points for a million values.
const distTicks = 4

// maxDist bounds the points of a distribution: 64 halvings suffice for a 64-bit count.
const maxDist = 64 * distTicks

// Histogram records durations from 1 ns to 100 s with three significant digits. Recording does not allocate.
type Histogram struct{ h *hdrhistogram.Histogram }

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, int64(100*time.Second), 3)}
}

// Record adds one duration. A value out of range counts as the nearest value in range.
func (h *Histogram) Record(d time.Duration) {
	v := min(max(int64(d), 1), int64(100*time.Second))
	// The value is in range, and RecordValue has no other error.
	_ = h.h.RecordValue(v)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return uint64(h.h.TotalCount()) }

// Merge adds the values of another histogram.
func (h *Histogram) Merge(o *Histogram) { h.h.Merge(o.h) }

// Reset removes all values and keeps the memory.
func (h *Histogram) Reset() { h.h.Reset() }

// Summary returns the distribution with every value divided by divisor. A divisor of 2 converts round trips into half round trips.
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
		Dist: h.dist(us),
	}
}

// dist returns points from the least to the greatest value, each closer to 100 % by a constant factor.
func (h *Histogram) dist(us func(ns int64) float64) []Quantile {
	var points []Quantile
	for _, b := range h.h.CumulativeDistributionWithTicks(distTicks) {
		points = append(points, Quantile{Percent: b.Quantile, US: us(min(b.ValueAt, h.h.Max()))})
	}
	return points
}

// saneDist checks that a distribution is ascending within 0 to 100 %.
func saneDist(points []Quantile) error {
	if len(points) > maxDist {
		return fmt.Errorf("dist has %d points, at most %d are possible", len(points), maxDist)
	}
	last := Quantile{}
	for _, q := range points {
		if q.Percent < last.Percent || q.Percent > 100 || q.US < last.US || q.US <= 0 {
			return fmt.Errorf("dist is not in order: %+v follows %+v", q, last)
		}
		last = q
	}
	return nil
}
