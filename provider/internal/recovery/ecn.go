package recovery

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// silences is the number of successive time-outs after which packets leave as not ECN-capable, because the path may lose
	// ECN-capable packets.
	silences = 3
	// MostLosses is the number of successive losses of the same contents that have the same effect. If packets arrive in the
	// opposite direction, there are no time-outs.
	MostLosses = 8
	// retryAfter is the time until packets are ECN-capable again after silence. It doubles each time, up to maxRetries times. On a
	// path that loses ECN-capable packets each attempt costs three time-outs. An outage of a path that supports ECN has the same
	// signs.
	retryAfter = time.Minute
	maxRetries = 6
	// allMarked successive packets are marked on a path that marks everything. Only packets that left after a rest count, because they
	// meet no queue of ours.
	allMarked = 16
	// A rest is restRounds round trips, and at most mostRest. Pacing reaches both: at the least window a packet leaves every 16 round
	// trips, or every millisecond.
	restRounds = 8
	mostRest   = time.Millisecond
	// lateMarks is the number of packets in this series that may be acknowledged before the peer reports their marks.
	lateMarks = 2
)

// ecnState is whether packets are ECN-capable.
type ecnState uint8

const (
	ecnNever  ecnState = iota // the ends did not agree on ECN
	ecnUsed                   // packets with contents are ECN-capable
	ecnSilent                 // the path may lose ECN-capable packets
	ecnFailed                 // the marks do not describe queues
)

// ECNChange is a change of whether packets are ECN-capable, and its reason.
type ECNChange uint8

// Changes of ECN.
const (
	ECNSame  ECNChange = iota
	ECNAgain           // the path carries ECN-capable packets, or is tried again
	ECNLost            // the path may lose ECN-capable packets
	ECNAll             // the path marks everything
	ECNSums            // the peer reports impossible sums of marks
	numChanges
)

var changeNames = [numChanges]string{"the same", "used again", "off, the path may lose packets that can be marked", "off, the path marks everything", "off, the peer reports impossible sums of marks"}

// String returns a description of the change.
func (c ECNChange) String() string { return changeNames[min(c, numChanges-1)] }

// ECN decides whether packets with contents are ECN-capable, and stops ECN on a path that does not support it (RFC 9000 §13.4.2,
// PROTOCOL §9.4). With the zero value, the ends did not agree on ECN.
type ECN struct {
	state   ecnState
	retries uint8
	row     uint8     // successive packets that left after a rest and were marked
	plain   int8      // packets of this series whose marks are not known yet
	sent    uint32    // ECN-capable packets sent, modulo 1<<32
	news    ECNChange // change that Tell has not returned yet
	silence *silence  // nil before the first time-out, because idle connections keep an ECN
}

// silence is a time in which no ECN-capable packet arrived.
type silence struct {
	since   uint64     // number of the first packet after the first time-out of the newest series
	until   uint64     // in state ecnSilent: number of the first packet that is not ECN-capable
	retryAt clock.Time // in state ecnSilent: when ECN is tried again
}

// begin records that a silence began before packet next.
func (e *ECN) begin(next uint64) {
	if e.silence == nil {
		e.silence = new(silence)
	}
	e.silence.since = next
}

// Agree records that both ends support ECN.
func (e *ECN) Agree() { e.state = ecnUsed }

// Agreed reports whether both ends support ECN.
func (e *ECN) Agreed() bool { return e.state != ecnNever }

// Field returns the ECN field of packets with contents.
func (e *ECN) Field() wire.ECN {
	if e.state == ecnUsed {
		return wire.ECT0
	}
	return wire.NotECT
}

// Left counts packets with contents that left.
func (e *ECN) Left(packets int) {
	if e.state == ecnUsed {
		e.sent += uint32(packets)
	}
}

// TimedOut handles a time-out. times is the number of successive time-outs; next is the number of the next packet.
func (e *ECN) TimedOut(times int, next uint64, now clock.Time) {
	if times == 1 {
		e.begin(next)
	}
	if times >= silences {
		e.silent(next, now)
	}
}

// LostAgain records that the same contents were lost losses times in a row.
func (e *ECN) LostAgain(losses uint8, next uint64, now clock.Time) {
	if losses == MostLosses {
		e.begin(next) // no sign of another cause
		e.silent(next, now)
	}
}

// silent stops ECN for a time.
func (e *ECN) silent(next uint64, now clock.Time) {
	if e.state != ecnUsed || e.silence == nil {
		return
	}
	e.become(ecnSilent, ECNLost)
	e.silence.until, e.silence.retryAt = next, now.Add(retryAfter<<e.retries)
	e.retries = min(e.retries+1, maxRetries)
}

// Late handles the arrival of a packet after a timer had sent its contents again. If the packet left during the silence and was
// ECN-capable, the path carries ECN-capable packets, and the peer was only descheduled.
func (e *ECN) Late(number uint64) {
	if e.state == ecnSilent && e.silence.since <= number && number < e.silence.until {
		e.become(ecnUsed, ECNAgain)
		e.retries--
	}
}

// Progress records that contents arrived. After retryAfter, packets are ECN-capable again.
func (e *ECN) Progress(now clock.Time) {
	if e.state == ecnSilent && now >= e.silence.retryAt {
		e.become(ecnUsed, ECNAgain)
	}
}

// Reported checks the sum of marks that the peer reports. It may be less than before only if the report was overtaken, and never
// more than was sent. If the sum is impossible, Reported returns false and stops ECN.
func (e *ECN) Reported(sum, before uint32, overtaken bool) bool {
	if int32(sum-e.sent) > 0 || int32(sum-before) < 0 && !overtaken {
		e.fail(ECNSums)
	}
	return e.state != ecnFailed
}

// fail stops ECN for good.
func (e *ECN) fail(why ECNChange) {
	if e.state != ecnNever && e.state != ecnFailed {
		e.become(ecnFailed, why)
	}
}

func (e *ECN) become(s ecnState, why ECNChange) { e.state, e.news = s, why }

// Tell returns the change after the previous call.
func (e *ECN) Tell() (c ECNChange) {
	c, e.news = e.news, ECNSame
	return c
}

// Marked records that the peer reported n new marks. It reports whether they can be marks of ECN-capable packets.
func (e *ECN) Marked(n int) bool {
	e.plain = int8(max(int(e.plain)-n, -1)) // a report may arrive before the acknowledgement of the packet
	return e.state == ecnUsed
}

// Rested reports whether a packet left after a rest. pause is Sent.Pause of the packet. A router may mark because of the rate: a burst
// fills its virtual queue, which delays no packet. Packets that leave soon after the burst was acknowledged are marked, too, until the
// virtual queue is drained.
func (r *RTT) Rested(pause time.Duration) bool { return pause >= min(restRounds*r.Smoothed, mostRest) }

// Acknowledged records that a packet with contents arrived. rested is whether it left after a rest and the window has room for one
// packet alone.
func (e *ECN) Acknowledged(rested bool) {
	switch {
	case !rested, e.plain >= lateMarks:
		e.row, e.plain = 0, 0
	default:
		e.row, e.plain = min(e.row+1, allMarked), e.plain+1
	}
}

// Everything reports whether the path is now known to mark everything. ECN then stops.
func (e *ECN) Everything() bool {
	known := e.plain <= 0
	e.plain = max(e.plain, 0)
	if !known || e.row < allMarked || e.state != ecnUsed {
		return false
	}
	e.fail(ECNAll)
	return true
}
