package recovery

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

const (
	// MinExpiries is how many time-outs there must have been at the least before a peer counts as dead.
	MinExpiries = 6
	maxSlack    = 16 // beyond that a round trip bounds the reordering window
)

// Detector decides what was lost (RACK-TLP, RFC 8985) and when to ask. Zero is that of a connection that has sent nothing.
type Detector struct {
	timerAt    clock.Time // probe or retransmission time-out; zero when nothing is in flight
	reorderAt  clock.Time // when a suspected packet becomes a lost one; zero when none is suspected
	progressAt clock.Time // last time that the oldest packet was acknowledged, or first packet after an idle time
	timedOut   uint64     // packets below this number left before the newest row of time-outs; zero once that was undone
	unasked    bool       // what was sent last did not ask for an acknowledgement
	probe      uint64     // the number of this flight's first tail-loss probe
	probes     int        // how many probes this flight had
	again      bool       // the timer is for another one
	timeoutAt  clock.Time // when a time-out follows the first of them
	expiries   int        // time-outs since the last progress

	slack     int          // what the reordering window is larger, in quarters of the smallest round trip
	slackenAt clock.Time   // when what was only late last made it larger
	absence   turn.Absence // of the peer from its core
}

// Verdict is what a timer that is due asks for.
type Verdict uint8

const (
	SendProbe Verdict = iota // send the newest again
	SendAgain                // a time-out: send the oldest again
	PeerDead                 // a time-out, and the peer has been silent for too long
)

// TimerAt is when Expire is to be called; zero when nothing is in flight.
func (d *Detector) TimerAt() clock.Time { return d.timerAt }

// ReorderAt is when Lost is to be asked; zero when nothing is suspected.
func (d *Detector) ReorderAt() clock.Time { return d.reorderAt }

// ProgressAt is when the peer last acknowledged what it owed, or first owed it something.
func (d *Detector) ProgressAt() clock.Time { return d.progressAt }

// Expiries is how many time-outs there were since the last progress.
func (d *Detector) Expiries() int { return d.expiries }

// Idle says that no timer runs: the next packet begins to wait anew.
func (d *Detector) Idle() bool { return d.timerAt == 0 }

// Restart lets the peer's time begin now.
func (d *Detector) Restart(now clock.Time) { d.progressAt = now }

// Stop ends all timers.
func (d *Detector) Stop() { d.timerAt, d.reorderAt = 0, 0 }

// Arm sets the timer: first a probe, then time-outs of at least floor. owed says that the peer has something left to acknowledge.
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
			wait += AnswerTime
		}
		d.timerAt = now.Add(max(wait, d.absence.Now(now)))
	}
}

// armAgain allows another probe before the time-out while the time-out is long because the path is new. It is long because of growing
// queues (RTT.Timeout), and queues lose probes, too. One of 32 connections that began together lost all its packets in flight and the
// probe, and then waited 50 ms. So until the time-out there are probes at the times when time-outs would occur by the round trips alone,
// each after twice the time (RFC 9002 §6.2.1).
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

// Unasked notes whether the peer may wait for AnswerTime before it acknowledges what was sent last.
func (d *Detector) Unasked(unasked bool) { d.unasked = unasked }

// Progress takes in that the oldest packet of a space was acknowledged.
func (d *Detector) Progress(now clock.Time) { d.progressAt, d.probes, d.expiries = now, 0, 0 }

// Answered handles the arrival of the packet with that number. It returns whether the peer's time begins anew, with another probe (Arm). It
// does if the packet is the probe or left after it (TLP.end_seq of RFC 8985 section 7.3). Packets that this declares lost are sent again,
// and only the probe's time-out would show that they were lost again. The oldest packet has not arrived, so this is no progress.
func (d *Detector) Answered(number uint64) bool {
	if d.probes == 0 || d.expiries > 0 || number < d.probe {
		return false
	}
	d.probes = 0
	return true
}

// Forgive takes in that nothing was lost: all that is not acknowledged is to go again for another reason.
func (d *Detector) Forgive(now clock.Time) {
	d.Progress(now)
	d.timedOut = 0
}

// InVain handles the arrival of a packet whose contents were sent again meanwhile. The packet declared lost was only late, so the
// reordering window grows. If it left before the first of a row of time-outs, nothing had been lost, and undo says to revert the time-outs.
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

// HeldByPeer handles the time between the peer's receipt of a packet and its acknowledgement. If it is longer than any peer delays
// acknowledgements, the peer was descheduled.
func (d *Detector) HeldByPeer(held time.Duration, now clock.Time) {
	if held > 2*AnswerTime {
		d.absence.Late(held, now)
	}
}

// Lost returns the oldest packet that was sent a reordering window before a packet that arrived, to be declared lost before the next call.
// It returns nil if there is none, and sets the timer for the oldest suspected packet. Packet numbers are in the order of sending, so
// packets of one poll, which share a time, are ordered, too. The order counts only within one path (PROTOCOL §11.1). A packet that only the
// other path overtook is lost after two time-outs of at least floor, and silent says so. Progress in the other space restarts its timer
// each time, so the timer alone would never expire.
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

// window is the reordering window. It grows, up to a round trip, with every round trip in which a packet declared lost arrives because it
// had only been overtaken. It falls back after 16 round trips without (RFC 8985 §6.2 step 4).
func (d *Detector) window(r *RTT, now clock.Time) time.Duration {
	if d.slack > 0 && now.Sub(d.slackenAt) > 16*r.Smoothed {
		d.slack = 0
	}
	return max(r.Reorder(), min(r.Reorder()+time.Duration(d.slack)*r.Min/4, r.Smoothed))
}

// Expire takes in that the timer is due: first for a probe, then for time-outs. next is the number of the next packet. A peer that has been silent for dead is given up.
// Arm must follow.
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
