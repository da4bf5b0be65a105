package bench

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Parts is where the time of the requester's requests went, in microseconds: the means of nd.Latency at the end of a test. They sum
// up to the time from post to result, and in a ping-pong, where the answer brings the acknowledgement, to about a whole round trip.
type Parts struct {
	Queueing   float64 `json:"queueing"`
	Wire       float64 `json:"wire"`
	RemoteHold float64 `json:"remote_hold"`
	Completion float64 `json:"completion"` // zero in a ping-pong, and where no request was sampled that reports its success
}

// PartNames returns the names of the parts in the order of By.
func PartNames() []string { return []string{"queueing", "wire", "remote hold", "completion"} }

// By returns the parts in the order in which a request goes through them.
func (p *Parts) By() []float64 { return []float64{p.Queueing, p.Wire, p.RemoteHold, p.Completion} }

// Sum is all of it.
func (p *Parts) Sum() float64 { return p.Queueing + p.Wire + p.RemoteHold + p.Completion }

// partsOf takes what a connection says at the end of a test, or nothing if no request was sampled. The completion queue serves
// other tests too: its mean counts only if it changed. In a ping-pong it never does: the application waits for the answer, most
// results are silent, and the few that are sampled do not outweigh the setup, which sleeps.
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
			return fmt.Errorf("parts_us: %s took %g µs", PartNames()[i], us)
		}
	}
	if p.Sum() <= 0 {
		return errors.New("parts_us: they sum up to nothing")
	}
	return nil
}
