package recovery

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// After silences time-outs in a row, packets are sent as not ECN-capable: the path may lose ECN-capable packets.
	silences = 3
	// MostLosses losses of the same contents in a row mean the same. Packets that arrive in the opposite direction prevent time-outs.
	MostLosses = 8
	// retryAfter is when packets can be marked again after silence ended it. It doubles with each time, maxRetries times: a path that has not changed costs three
	// time-outs each time, and an outage of a path that bears marks looks the same.
	retryAfter = time.Minute
	maxRetries = 6
	// allMarked packets in a row that were marked, each of them alone on its way, mean that the path marks everything: a packet alone makes no queue.
	allMarked = 16
	// lateMarks is how many packets of a row may be acknowledged before the peer reports their marks.
	lateMarks = 2
)

// ecnState is what became of marking.
type ecnState uint8

const (
	ecnNever  ecnState = iota // not agreed to
	ecnUsed                   // packets with contents can be marked
	ecnSilent                 // the path may lose ECN-capable packets
	ecnFailed                 // the path or the peer tells of marks that say nothing
)

// ECNChange is that a connection began or ceased to send packets that can be marked, and why.
type ECNChange uint8

// The changes.
const (
	ECNSame  ECNChange = iota
	ECNAgain           // the path carries ECN-capable packets, or is tried again
	ECNLost            // the path may lose ECN-capable packets
	ECNAll             // the path marks everything
	ECNSums            // the peer reports sums of marks that cannot be
	numChanges
)

var changeNames = [numChanges]string{"the same", "used again", "off, the path may lose packets that can be marked", "off, the path marks everything", "off, the peer reports impossible sums of marks"}

// String says it in words.
func (c ECNChange) String() string { return changeNames[min(c, numChanges-1)] }

// ECN decides whether packets with contents can be marked by routers, and stops that on a path that does not bear it (RFC 9000 §13.4.2, PROTOCOL §9.4). Zero is that of
// ends that did not agree to marks.
type ECN struct {
	state   ecnState
	retries uint8
	row     uint8     // packets in a row that were alone and marked
	plain   int8      // packets of the row whose marks are not known
	sent    uint32    // packets that could be marked, modulo 1<<32
	news    ECNChange // that nobody was told of yet
	silence *silence  // nil before the first time-out: idle connections keep an ECN
}

// silence is a time in which nothing that could be marked arrived.
type silence struct {
	since   uint64     // number of the first packet after the first time-out of the newest row
	until   uint64     // number of the first packet that cannot be marked, in state ecnSilent
	retryAt clock.Time // in state ecnSilent
}

// begin notes that a silence began before a packet.
func (e *ECN) begin(next uint64) {
	if e.silence == nil {
		e.silence = new(silence)
	}
	e.silence.since = next
}

// Agree takes in that both ends tell of marks.
func (e *ECN) Agree() { e.state = ecnUsed }

// Agreed says whether both ends tell of marks.
func (e *ECN) Agreed() bool { return e.state != ecnNever }

// Field is what packets with contents carry now.
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

// TimedOut takes in a time-out, the newest of so many in a row. next is the number of the next packet.
func (e *ECN) TimedOut(times int, next uint64, now clock.Time) {
	if times == 1 {
		e.begin(next)
	}
	if times >= silences {
		e.silent(next, now)
	}
}

// LostAgain takes in that the same contents were lost so many times, one after another.
func (e *ECN) LostAgain(losses uint8, next uint64, now clock.Time) {
	if losses == MostLosses {
		e.begin(next) // nothing shows that it was another cause
		e.silent(next, now)
	}
}

// silent stops marking for a while.
func (e *ECN) silent(next uint64, now clock.Time) {
	if e.state != ecnUsed || e.silence == nil {
		return
	}
	e.become(ecnSilent, ECNLost)
	e.silence.until, e.silence.retryAt = next, now.Add(retryAfter<<e.retries)
	e.retries = min(e.retries+1, maxRetries)
}

// Late handles the arrival of a packet after a timer had sent its contents again. If the packet left during the silence and was
// ECN-capable, the path carries such packets: the peer was descheduled.
func (e *ECN) Late(number uint64) {
	if e.state == ecnSilent && e.silence.since <= number && number < e.silence.until {
		e.become(ecnUsed, ECNAgain)
		e.retries--
	}
}

// Progress takes in that contents arrived: after long, packets that can be marked are tried again.
func (e *ECN) Progress(now clock.Time) {
	if e.state == ecnSilent && now >= e.silence.retryAt {
		e.become(ecnUsed, ECNAgain)
	}
}

// Reported takes in the sum of marks that the peer reports, after another one. It may be less only if the report was overtaken, and never more than was sent. The result
// is false when it does not fit: marks of this connection count no more.
func (e *ECN) Reported(sum, before uint32, overtaken bool) bool {
	if int32(sum-e.sent) > 0 || int32(sum-before) < 0 && !overtaken {
		e.fail(ECNSums)
	}
	return e.state != ecnFailed
}

// fail stops marking for good.
func (e *ECN) fail(why ECNChange) {
	if e.state != ecnNever && e.state != ecnFailed {
		e.become(ecnFailed, why)
	}
}

func (e *ECN) become(s ecnState, why ECNChange) { e.state, e.news = s, why }

// Tell returns what changed since it was asked last.
func (e *ECN) Tell() (c ECNChange) {
	c, e.news = e.news, ECNSame
	return c
}

// Marked takes in that the peer tells of n new marks, and says whether they are of packets that could be marked.
func (e *ECN) Marked(n int) bool {
	e.plain = int8(max(int(e.plain)-n, -1)) // the mark of a packet may be known before it is acknowledged
	return e.state == ecnUsed
}

// Acknowledged takes in that a packet with contents arrived. alone says that the window has room for no other.
func (e *ECN) Acknowledged(alone bool) {
	switch {
	case !alone, e.plain >= lateMarks:
		e.row, e.plain = 0, 0
	default:
		e.row, e.plain = min(e.row+1, allMarked), e.plain+1
	}
}

// Everything follows what a packet told of arrivals and marks, and says that by now the path is known to mark everything: marks of this connection count no more.
func (e *ECN) Everything() bool {
	known := e.plain <= 0
	e.plain = max(e.plain, 0)
	if !known || e.row < allMarked || e.state != ecnUsed {
		return false
	}
	e.fail(ECNAll)
	return true
}
