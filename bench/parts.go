package bench

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Parts divides the latency of the requester's requests, in microseconds: the means of nd.Latency at the end of a test. They sum up
// to the time from post to result. In a ping-pong, where the answer carries the acknowledgement, this is about a whole round trip.
type Parts struct {
	Queueing   float64 `json:"queueing"`
	Wire       float64 `json:"wire"`
	RemoteHold float64 `json:"remote_hold"`
	Completion float64 `json:"completion"` // zero in a ping-pong, and if no sampled request reported its success
}

// PartNames returns the names of the parts, in the order of By.
func PartNames() []string { return []string{"queueing", "wire", "remote hold", "completion"} }

// By returns the parts in the order of a request's phases.
func (p *Parts) By() []float64 { return []float64{p.Queueing, p.Wire, p.RemoteHold, p.Completion} }

// Sum returns the total.
func (p *Parts) Sum() float64 { return p.Queueing + p.Wire + p.RemoteHold + p.Completion }

// partsOf returns the parts of a connection at the end of a test, or nil without a sample. The completion queue serves other tests,
// too, so its mean counts only if it changed. In a ping-pong it does not count: the application waits for the answer, most results
// are silent, and few samples do not outweigh the set-up, which sleeps.
func partsOf(before, now nd.Latency, latIs string) *Parts {
	if latIs == HalfRoundTrip || now.Completion == before.Completion {
		now.Completion = 0
	}
	if now.Queueing == 0 && now.Wire == 0 {
		return nil
	}
	return &Parts{micros(now.Queueing), micros(now.Wire), micros(now.RemoteHold), micros(now.Completion)}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// sane checks that the parts can be drawn.
func (p *Parts) sane() error {
	if p == nil {
		return nil
	}
	for i, us := range p.By() {
		if !(us >= 0) || math.IsInf(us, 0) {
			return fmt.Errorf("parts_us: %s is %g µs: it must be finite and not negative", PartNames()[i], us)
		}
	}
	if p.Sum() <= 0 {
		return errors.New("parts_us: the sum of all parts must be positive")
	}
	return nil
}
