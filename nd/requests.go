package nd

import (
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// OperationNames are the keys of Stats.Operations.
func OperationNames() []string { return append([]string(nil), requestNames[:]...) }

// PayloadNames are the keys of Stats.PayloadBytes: the operations that move bytes.
func PayloadNames() []string { return []string{"receive", "send", "read", "write"} }

// RequestLatency is how long initiator requests took from their post to their result. It is of samples: about one request in a millisecond of each
// connection that is not idle.
type RequestLatency struct {
	// Counts has for each of LatencyBounds the samples that took no longer, and longer than the bound before it. The last count has no bound.
	Counts []uint64      `json:"counts"`
	Sum    time.Duration `json:"sum_ns"` // of all samples
}

// LatencyBounds are what Counts of a RequestLatency belong to: 1 µs, and from one to the next twice as much.
func LatencyBounds() []time.Duration {
	bounds := make([]time.Duration, provider.NumLatencies-1)
	for i := range bounds {
		bounds[i] = provider.LatencyBound(i)
	}
	return bounds
}

// requests fills in what the engines counted of requests.
func (s *Stats) requests(p *provider.Stats) {
	s.Operations, s.PayloadBytes = map[string]uint64{}, map[string]uint64{}
	for kind, name := range requestNames {
		s.Operations[name] = p.RequestsDone[kind]
	}
	for _, kind := range []provider.RequestKind{provider.KindReceive, provider.KindSend, provider.KindRead, provider.KindWrite} {
		s.PayloadBytes[requestNames[kind]] = p.RequestBytes[kind]
	}
	s.RequestLatency = RequestLatency{Counts: p.Latencies[:], Sum: time.Duration(p.LatencyNanos)}
}
