package recovery

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

const (
	// MinExpiries is the least number of time-outs before a peer counts as dead.
	MinExpiries = 6
	maxSlack    = 16 // largest slack; a round trip bounds the reordering window, too
)

// Detector decides which packets were lost (RACK-TLP, RFC 8985) and when to probe. The zero value has sent nothing.
type Detector struct {
	timerAt    clock.Time // time of the next probe or retransmission time-out; zero if nothing is in flight
	reorderAt  clock.Time // when the oldest suspected packet is declared lost; zero if none is suspected
	progressAt clock.Time // last time that the oldest packet was acknowledged, or that a packet left with none in flight
	timedOut   uint64     // packets below this number left before the newest series of time-outs; zero after it was undone
	unasked    bool       // the newest packet did not request an acknowledgement
	probe      uint64     // number of the first probe of this flight
	probes     int        // number of probes of this flight
	again      bool       // the timer is for a further probe
	timeoutAt  clock.Time // when a time-out follows the first probe
	expiries   int        // time-outs after the last progress

	slack     int           // extension of the reordering window, in quarters of the smallest round trip
	slackenAt clock.Time    // when a late packet last extended it
	absence   *turn.Absence // how long the peer may be descheduled; nil for not at all
}

// Verdict is what to do when the timer is due.
type Verdict uint8

const (
	SendProbe Verdict = iota // retransmit the newest packet
	SendAgain                // a time-out: retransmit the oldest packet
	PeerDead                 // a time-out, and the peer has been silent for too long
)

// TimerAt returns the time of the next call of Expire, or zero if nothing is in flight.
func (d *Detector) TimerAt() clock.Time { return d.timerAt }

// ReorderAt returns the time of the next call of Lost, or zero if no packet is suspected.
func (d *Detector) ReorderAt() clock.Time { return d.reorderAt }

// ProgressAt returns when the peer last acknowledged outstanding contents, or when the first of them left.
func (d *Detector) ProgressAt() clock.Time { return d.progressAt }

// Expiries returns the number of time-outs after the last progress.
func (d *Detector) Expiries() int { return d.expiries }

// Idle reports whether no timer runs.
func (d *Detector) Idle() bool { return d.timerAt == 0 }

// WaitFor makes the timers wait for a peer that may be descheduled. Connections to one host share what they know of it.
func (d *Detector) WaitFor(a *turn.Absence) { d.absence = a }

// Restart counts the peer's silence from now.
func (d *Detector) Restart(now clock.Time) { d.progressAt = now }

// Stop stops all timers.
func (d *Detector) Stop() { d.timerAt, d.reorderAt = 0, 0 }

// Arm sets the timer: first for a probe, then for time-outs of at least floor. owed means that the peer has something left to
// acknowledge.
func (d *Detector) Arm(now clock.Time, r *RTT, floor time.Duration, owed bool) {
	d.again = false
	switch {
	case !owed:
		d.timerAt, d.probes = 0, 0
	case d.probes > 0:
		d.timerAt = now.Add(max(r.Timeout(floor), d.absence.Now(now)))
		d.armAgain(now, r, floor)
	default:
		wait := min(r.Probe(), r.Timeout(floor))
		if d.unasked {
			wait += turn.AnswerTime
		}
		d.timerAt = now.Add(max(wait, d.absence.Now(now)))
	}
}

// armAgain adds probes before the time-out while the time-out is long because the path is new (RTT.Timeout). The time-out is long
// because queues may still grow, and queues lose probes, too. In a test, one of 32 connections that began together lost all packets
// in flight and the probe, and then waited 50 ms. So probes leave at the times when time-outs would occur by the round trip alone,
// with doubling gaps (RFC 9002 §6.2.1).
func (d *Detector) armAgain(now clock.Time, r *RTT, floor time.Duration) {
	if d.probes == 1 {
		d.timeoutAt = d.timerAt
	}
	if d.expiries > 0 || r.Fresh() || r.Settled() {
		return
	}
	wait := max(r.Silence(floor)<<(d.probes-1), d.absence.Now(now))
	if d.again = now.Add(wait) < d.timeoutAt; d.again {
		d.timerAt = now.Add(wait)
	} else {
		d.timerAt = max(d.timeoutAt, now)
	}
}

// Unasked records whether the peer may delay the acknowledgement of the newest packet by turn.AnswerTime.
func (d *Detector) Unasked(unasked bool) { d.unasked = unasked }

// Progress records that the oldest packet of a space was acknowledged.
func (d *Detector) Progress(now clock.Time) { d.progressAt, d.probes, d.expiries = now, 0, 0 }

// Answered handles the arrival of the packet with this number. It reports whether to restart the timer with another probe (Arm).
// This is so if the packet is the probe or left after it (TLP.end_seq of RFC 8985 section 7.3). Packets that are declared lost now
// are retransmitted, and otherwise only the probe's time-out would show that they were lost again. The oldest packet has not
// arrived, so this is no progress.
func (d *Detector) Answered(number uint64) bool {
	if d.probes == 0 || d.expiries > 0 || number < d.probe {
		return false
	}
	d.probes = 0
	return true
}

// Forgive records that no packet was lost: unacknowledged contents are retransmitted for another reason.
func (d *Detector) Forgive(now clock.Time) {
	d.Progress(now)
	d.timedOut = 0
}

// InVain handles the arrival of a packet whose contents were retransmitted meanwhile. The packet was only late, so the reordering
// window grows. If it left before the first of a series of time-outs, nothing had been lost, and undo says to undo the time-outs.
func (d *Detector) InVain(now clock.Time, r *RTT, number uint64, sent clock.Time, state State) (undo bool) {
	if state&Again != 0 {
		d.absence.Late(now.Sub(sent), now)
	}
	if state&Lost != 0 && now.Sub(d.slackenAt) > r.Smoothed {
		d.slack, d.slackenAt = min(d.slack+1, maxSlack), now
	}
	if state&Again != 0 && number < d.timedOut {
		d.timedOut = 0
		return true
	}
	return false
}

// HeldByPeer handles the time that the peer held a packet before it acknowledged it. If this is longer than any peer delays
// acknowledgements, the peer was descheduled.
func (d *Detector) HeldByPeer(held time.Duration, now clock.Time) {
	if held > 2*turn.AnswerTime {
		d.absence.Late(held, now)
	}
}

// Lost returns the oldest packet that left at least a reordering window before a packet that arrived. The caller declares it lost
// before the next call. Lost returns nil if there is none, and sets the timer for the oldest suspected packet. Packet numbers are
// in sending order, which also orders packets of one poll, whose times are equal. The order counts only within one path (PROTOCOL
// §11.1). A packet that only packets of another path overtook is lost after two time-outs of at least floor, and silent reports
// this. Progress in the second space restarts its timer each time, so the timer alone would never expire.
func (d *Detector) Lost(s *Sent, r *RTT, floor time.Duration, now clock.Time) (lost *Packet, silent bool) {
	d.reorderAt = 0
	if s.PacketsInFlight() == 0 {
		return nil, false
	}
	for lane := range lanes {
		n, within, ok := s.overtaken(lane)
		if !ok {
			continue
		}
		wait := r.Smoothed + d.window(r, now)
		if !within {
			wait = 2 * max(r.Timeout(floor), d.absence.Now(now))
		}
		p := s.Packet(n)
		due := p.At.Add(wait)
		if due <= now {
			return p, !within
		}
		if d.reorderAt == 0 || due < d.reorderAt {
			d.reorderAt = due
		}
	}
	return nil, false
}

// window returns the reordering window. It grows, up to a round trip, with each round trip in which a packet declared lost arrives
// late. It shrinks again after 16 round trips without a late packet (RFC 8985 §6.2 step 4).
func (d *Detector) window(r *RTT, now clock.Time) time.Duration {
	if d.slack > 0 && now.Sub(d.slackenAt) > 16*r.Smoothed {
		d.slack = 0
	}
	return max(r.Reorder(), min(r.Reorder()+time.Duration(d.slack)*r.Min/4, r.Smoothed))
}

// Expire handles a timer that is due, first for a probe, then for time-outs. next is the number of the next packet. A peer that has
// been silent for dead counts as dead. The caller then calls Arm.
func (d *Detector) Expire(now clock.Time, next uint64, dead time.Duration) Verdict {
	if d.probes == 0 || d.again {
		if d.probes++; d.probes == 1 {
			d.probe = next
		}
		return SendProbe
	}
	if d.expiries++; d.expiries == 1 {
		d.timedOut = next
	}
	if now.Sub(d.progressAt) >= dead && d.expiries >= MinExpiries {
		return PeerDead
	}
	return SendAgain
}
