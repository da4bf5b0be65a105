package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// mostFailures is how often a failure doubles the number of bytes before the next probe.
	mostFailures = 10
	// leastLong is the least size of a long packet. A shorter one is not worth a batch of its own.
	leastLong = 8 << 10
	// mostLongLosses is the number of long packets lost in a row after which the network counts as splitting GSO batches. A queue that
	// overflows rarely loses as many.
	mostLongLosses = 4
)

// Long decides whether packets of the bulk path may be long packets (PROTOCOL §11.2). The zero Long has no proof.
type Long struct {
	proof
	lost     uint8 // long packets lost in a row
	failures uint8 // how often probes were not answered, or mostLongLosses packets were lost
	sent     int   // bytes sent on the bulk path after the last failure
}

// Proven returns the size of the longest packets that are known to arrive; zero for none.
func (l *Long) Proven() int { return int(l.proven) }

// Left counts bytes that left by the bulk path.
func (l *Long) Left(bytes int) { l.sent += bytes }

// ProbeDue reports whether to probe for packets of size bytes, if after bytes on the bulk path precede the first probe. A probe is as
// long as a long packet, so a connection that sends less would gain nothing. Each failure doubles the number.
func (l *Long) ProbeDue(size, after int, now clock.Time) bool {
	return l.sent >= after<<l.failures && l.due(size, now)
}

// Probe returns the nonce of the probe to send now, as Choice.Probe does. If maxProbes probes were not answered, it returns false, and
// counts that as a failure.
func (l *Long) Probe(size int, now clock.Time, timeout time.Duration, random uint32) (nonce uint32, ok bool) {
	if nonce, ok = l.probe(size, now, timeout, random); !ok {
		l.fail()
	}
	return nonce, ok
}

// Answered handles the answer to a probe. It returns false if the answer is not for the current probe.
func (l *Long) Answered(nonce uint32, size uint16) bool {
	yes := l.answered(nonce, size)
	if yes {
		l.lost = 0
	}
	return yes
}

// Came counts a long packet that arrived.
func (l *Long) Came() { l.lost = 0 }

// Lost counts a long packet that was declared lost. It reports whether the connection sends no more of them because of that.
func (l *Long) Lost() (left bool) {
	if l.proven == 0 {
		return false
	}
	if l.lost++; l.lost < mostLongLosses {
		return false
	}
	l.fail()
	return true
}

// fail ends the use of long packets until the next proof.
func (l *Long) fail() { *l = Long{failures: min(l.failures+1, mostFailures)} }

// Forget ends the use of long packets because the connection left the bulk path.
func (l *Long) Forget() { *l = Long{failures: l.failures} }

// LongRoom returns how long a packet of at most size bytes may be while the windows have room for room bytes. It is zero if the packet may
// not be a long one: it would have at most two segments of segment bytes, or fewer than leastLong bytes.
func LongRoom(segment, size, room int) int {
	if size = min(size, room); size < leastLong || size <= 2*segment {
		return 0
	}
	return size
}
