package trace

import (
	"math/bits"
	"time"
)

// NumRequestKinds is the number of request kinds.
const NumRequestKinds = 7

// Requests counts successful requests, by kind, and their bytes.
type Requests struct {
	Done  [NumRequestKinds]uint64
	Bytes [NumRequestKinds]uint64
}

// Count counts one request.
func (r *Requests) Count(kind uint8, bytes uint32) {
	r.Done[kind]++
	r.Bytes[kind] += uint64(bytes)
}

// NumLatencies is the number of latency classes of sampled requests. The i-th class has requests of up to LatencyBound(i), and the last
// class all longer ones.
const NumLatencies = 25

// LatencyBound returns the upper bound of a class: 1 µs for class 0, doubling with each class, up to 8.4 s.
func LatencyBound(class int) time.Duration { return time.Microsecond << class }

// latencyClass returns the class of a latency.
func latencyClass(d time.Duration) int {
	return min(bits.Len64(uint64(max(d-1, 0)/time.Microsecond)), NumLatencies-1)
}

// Took counts a sampled request.
func (s *Stats) Took(d time.Duration) {
	s.Latencies[latencyClass(d)]++
	s.LatencyNanos += uint64(max(d, 0))
}
