package recovery

import "time"

const (
	// InitialRTO is the time-out before the first round-trip sample, and the least time-out while the path is new.
	InitialRTO = 50 * time.Millisecond
	// MaxRTO is the longest time-out.
	MaxRTO = time.Second
	// MaxSample bounds a round-trip sample. A larger sample means that the peer was stopped or reported a wrong delay.
	MaxSample = 4 * time.Second
	// SettledAfter is the number of acknowledgements of data after which the time-out depends on round trips alone.
	SettledAfter = 64
	maxBackoff   = 12 // limit of doublings of the time-out
)

// RTT estimates the round trip (RFC 6298) from ACK blocks. A block reports how long the peer held the packet, so samples measure
// the network and not the peer's application (PROTOCOL §3.5).
type RTT struct {
	Smoothed, Variance, Min time.Duration // zero before the first sample
	backoff                 uint8         // doublings of the time-out after the last progress
	moves                   uint8         // acknowledgements of data, up to SettledAfter
}

// Sample adds a sample.
func (r *RTT) Sample(d time.Duration) {
	if d <= 0 || d > MaxSample {
		return
	}
	if r.Smoothed == 0 {
		r.Smoothed, r.Variance, r.Min = d, d/2, d
		return
	}
	if d < r.Min {
		r.Min = d
	}
	diff := r.Smoothed - d
	if diff < 0 {
		diff = -diff
	}
	r.Variance += (diff - r.Variance) / 4
	r.Smoothed += (d - r.Smoothed) / 8
}

// Progress records that data was acknowledged, which ends the doubling.
func (r *RTT) Progress() { r.backoff, r.moves = 0, min(r.moves+1, SettledAfter) }

// Settle makes the time-out depend on round trips alone from now on.
func (r *RTT) Settle() { r.moves = SettledAfter }

// Fresh reports whether no data was ever acknowledged.
func (r *RTT) Fresh() bool { return r.moves == 0 }

// Settled reports whether the time-out depends on round trips alone.
func (r *RTT) Settled() bool { return r.moves == SettledAfter }

// Expired doubles the time-out, up to a bound.
func (r *RTT) Expired() { r.backoff = min(r.backoff+1, maxBackoff) }

// Calm ends the doubling, and reports whether there was any.
func (r *RTT) Calm() (did bool) {
	did = r.backoff > 0
	r.backoff = 0
	return did
}

// Timeout returns the retransmission time-out: SRTT + max(100 µs, 4 RTTVAR), at least floor, doubled with every expiry. While the
// path is new, it is at least InitialRTO: the handshake's round trip says nothing about a queue that many connections fill at once,
// and the first data's round trip is measured while the queue grows. In a test, 32 first windows in front of a link of 200 Mb/s
// took 31 ms. With a time-out of 20 ms they caused 10 to 20 time-outs, most of them spurious. Probes find lost packets meanwhile.
func (r *RTT) Timeout(floor time.Duration) time.Duration {
	if !r.Settled() {
		floor = max(floor, InitialRTO)
	}
	d := max(r.Smoothed+max(100*time.Microsecond, 4*r.Variance), floor)
	return min(d<<r.backoff, MaxRTO)
}

// Silence returns how long an answer may take before the path counts as silent: the time-out without doubling and without
// InitialRTO.
func (r *RTT) Silence(floor time.Duration) time.Duration {
	if r.Smoothed == 0 {
		return InitialRTO
	}
	return max(r.Smoothed+4*r.Variance, floor)
}

// Probe returns the tail-loss probe time-out (RFC 8985 §7.2): 2 SRTT + 50 µs, and at least 200 µs, because software peers may be
// descheduled for a moment.
func (r *RTT) Probe() time.Duration {
	if r.Smoothed == 0 {
		return InitialRTO
	}
	return max(2*r.Smoothed+50*time.Microsecond, 200*time.Microsecond)
}

// Reorder returns how much later than its successor a packet may arrive before it counts as lost (RFC 8985 §6.2). It is a quarter
// of the smallest round trip, and at least 20 µs, because software processes packets in batches.
func (r *RTT) Reorder() time.Duration { return max(r.Min/4, 20*time.Microsecond) }
