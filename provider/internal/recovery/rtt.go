package recovery

import "time"

const (
	// InitialRTO is the time-out before the first round trip was measured, and the least one while the path is new.
	InitialRTO = 50 * time.Millisecond
	// MaxRTO is the longest time-out.
	MaxRTO = time.Second
	// MaxSample bounds a round-trip sample: a larger one is a peer that was stopped, or a forged delay.
	MaxSample = 4 * time.Second
	// SettledAfter is how often data must have been acknowledged before the time-out follows from round trips alone.
	SettledAfter = 64
	maxBackoff   = 12 // doublings of the time-out
)

// RTT estimates the round trip (RFC 6298) from ACK blocks. They say how long the peer held our packet, so samples are of the network
// and not of the peer's application (PROTOCOL §3.5).
type RTT struct {
	Smoothed, Variance, Min time.Duration // zero before the first sample
	backoff                 uint8         // doublings of the time-out since the last progress
	moves                   uint8         // times that data was acknowledged, up to SettledAfter
}

// Sample takes in one measurement.
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

// Progress notes that data was acknowledged: the next time-out is not doubled.
func (r *RTT) Progress() { r.backoff, r.moves = 0, min(r.moves+1, SettledAfter) }

// Settle lets the time-out follow from round trips alone from now on.
func (r *RTT) Settle() { r.moves = SettledAfter }

// Fresh says that no data was ever acknowledged.
func (r *RTT) Fresh() bool { return r.moves == 0 }

// Settled says that the time-out follows from round trips alone.
func (r *RTT) Settled() bool { return r.moves == SettledAfter }

// Expired doubles the time-out, up to a bound.
func (r *RTT) Expired() { r.backoff = min(r.backoff+1, maxBackoff) }

// Calm takes the doublings back, and reports whether there were any.
func (r *RTT) Calm() (did bool) {
	did = r.backoff > 0
	r.backoff = 0
	return did
}

// Timeout is the retransmission time-out: SRTT + max(100 µs, 4 RTTVAR), at least floor, doubled on every expiry. At the beginning it is
// at least InitialRTO. The handshake's round trip says nothing of a queue that many connections fill at once, and the first data's round
// trip is measured in a queue that still grows. 32 first windows in front of a link of 200 Mb/s take 31 ms. With 20 ms until the first
// acknowledgement they ended in 10 to 20 time-outs, most of them spurious. Probes find lost packets meanwhile.
func (r *RTT) Timeout(floor time.Duration) time.Duration {
	if !r.Settled() {
		floor = max(floor, InitialRTO)
	}
	d := max(r.Smoothed+max(100*time.Microsecond, 4*r.Variance), floor)
	return min(d<<r.backoff, MaxRTO)
}

// Silence is how long an answer may take before the path counts as silent: the time-out without what makes it longer.
func (r *RTT) Silence(floor time.Duration) time.Duration {
	if r.Smoothed == 0 {
		return InitialRTO
	}
	return max(r.Smoothed+4*r.Variance, floor)
}

// Probe is the tail-loss probe time-out (RFC 8985 §7.2): 2 SRTT + 50 µs, not below 200 µs. The floor is for software
// peers that are off their core for a moment.
func (r *RTT) Probe() time.Duration {
	if r.Smoothed == 0 {
		return InitialRTO
	}
	return max(2*r.Smoothed+50*time.Microsecond, 200*time.Microsecond)
}

// Reorder is how much later than its successor a packet may arrive before it counts as lost (RFC 8985 §6.2): a quarter of the smallest
// round trip, and at least 20 µs for software that works in batches.
func (r *RTT) Reorder() time.Duration { return max(r.Min/4, 20*time.Microsecond) }
