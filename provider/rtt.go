package provider

import "time"

// maxSample bounds a round-trip sample: a larger one is a peer that was stopped, or a forged delay.
const maxSample = 4 * time.Second

// rtt estimates the round trip (RFC 6298) from ACK blocks. They say how long the peer held our packet, so samples are of the network
// and not of the peer's application (PROTOCOL §3.5).
type rtt struct {
	smoothed, variance, min time.Duration
	backoff                 uint8 // doublings of the time-out since the last progress
	moves                   uint8 // times that data was acknowledged, up to settledMoves
}

// sample takes in one measurement.
func (r *rtt) sample(d time.Duration) {
	if d <= 0 || d > maxSample {
		return
	}
	if r.smoothed == 0 {
		r.smoothed, r.variance, r.min = d, d/2, d
		return
	}
	if d < r.min {
		r.min = d
	}
	diff := r.smoothed - d
	if diff < 0 {
		diff = -diff
	}
	r.variance += (diff - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// settledMoves is how often data must have been acknowledged before the time-out follows from round trips alone.
const stableMoves = 64

// timeout is the retransmission time-out: SRTT + max(100 µs, 4 RTTVAR), not below floor, doubled on every expiry. At the
// beginning it is at least initialRTO: what the handshake measured says nothing of a queue that many connections fill at
// once, and what the first data measured is behind a queue that still grows. 32 first windows in front of a link of 200 Mb/s take
// 31 ms, and ended in 10 to 20 time-outs, most of them spurious, with 20 ms until the first acknowledgement; half of them came after it.
// Probes find what is lost.
func (r *rtt) timeout(floor time.Duration) time.Duration {
	if r.moves < stableMoves {
		floor = max(floor, initialRTO)
	}
	d := max(r.smoothed+max(100*time.Microsecond, 4*r.variance), floor)
	return min(d<<r.backoff, maxRTO)
}

// silence is how long an answer may take before the path counts as silent: the time-out without what makes it longer.
func (r *rtt) silence(floor time.Duration) time.Duration {
	if r.smoothed == 0 {
		return initialRTO
	}
	return max(r.smoothed+4*r.variance, floor)
}

// probe is the tail-loss probe time-out (RFC 8985 §7.2): 2 SRTT + 50 µs, not below 200 µs. The floor is for software
// peers that are off their core for a moment.
func (r *rtt) probe() time.Duration {
	if r.smoothed == 0 {
		return initialRTO
	}
	return max(2*r.smoothed+50*time.Microsecond, 200*time.Microsecond)
}

// reorder is how much later than its successor a packet may arrive before it counts as lost (RFC 8985 §6.2): a quarter of
// the smallest round trip, and at least 20 µs for software that works in batches.
func (r *rtt) reorder() time.Duration { return max(r.min/4, 20*time.Microsecond) }
