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

	Dist []Quantile `json:"dist,omitempty"` // the whole distribution, ascending; older reports have none
}

// Quantile is one point of a distribution: so many percent of the values are at most US microseconds.
type Quantile struct {
	Percent float64 `json:"percent"`
	US      float64 `json:"us"`
}

// distTicks is how many points of a distribution lie between one quantile and the quantile half as far from 100 %: 4 points
// draw a smooth curve, and a million values are reduced to about 80 points.
const distTicks = 4

// maxDist bounds the points of a distribution: 64 halvings are more than a 64-bit count has.
const maxDist = 64 * distTicks

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

// Merge adds what another histogram recorded.
func (h *Histogram) Merge(o *Histogram) { h.h.Merge(o.h) }

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
		Dist: h.dist(us),
	}
}

// dist walks from the least value to the greatest in steps that halve the distance to 100 %.
func (h *Histogram) dist(us func(ns int64) float64) []Quantile {
	var points []Quantile
	for _, b := range h.h.CumulativeDistributionWithTicks(distTicks) {
		points = append(points, Quantile{Percent: b.Quantile, US: us(min(b.ValueAt, h.h.Max()))})
	}
	return points
}

// saneDist checks that a distribution rises within 0 to 100 %.
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
