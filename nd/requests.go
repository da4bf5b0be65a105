package nd

import (
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// OperationNames returns the keys of OperationStats.Done.
func OperationNames() []string { return append([]string(nil), requestNames[:]...) }

// PayloadNames returns the keys of OperationStats.Bytes: the operations that move bytes.
func PayloadNames() []string { return []string{"receive", "send", "read", "write"} }

// RequestLatency is a histogram of the time from posting an initiator request to its result. It samples about one request per millisecond
// of each connection that is not idle.
type RequestLatency struct {
	// Counts[i] counts the samples above LatencyBounds()[i-1] and up to LatencyBounds()[i]. The last count has no upper bound.
	Counts []uint64      `json:"counts"`
	Sum    time.Duration `json:"sum_ns"` // sum of all samples
}

// LatencyBounds returns the upper bounds of RequestLatency.Counts: 1 µs, then each twice the bound before it.
func LatencyBounds() []time.Duration {
	bounds := make([]time.Duration, provider.NumLatencies-1)
	for i := range bounds {
		bounds[i] = provider.LatencyBound(i)
	}
	return bounds
}

// requests copies the engines' counters of requests.
func (s *Stats) requests(p *provider.Stats) {
	s.Operations.Done, s.Operations.Bytes = map[string]uint64{}, map[string]uint64{}
	for kind, name := range requestNames {
		s.Operations.Done[name] = p.RequestsDone[kind]
	}
	for _, kind := range []provider.RequestKind{provider.KindReceive, provider.KindSend, provider.KindRead, provider.KindWrite} {
		s.Operations.Bytes[requestNames[kind]] = p.RequestBytes[kind]
	}
	s.Operations.Latency = RequestLatency{Counts: p.Latencies[:], Sum: time.Duration(p.LatencyNanos)}
}
