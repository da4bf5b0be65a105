// Package sourceport handles the UDP source ports of a connection's ends (PROTOCOL §6.1): how a peer validates a new port, and when
// this side changes its own. Its objects are values without locks or allocations; the owner of the connection calls them.
package sourceport

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Reach is the largest distance of the packet number of a packet from an unvalidated port to the largest number received. It
// exceeds what is ever in flight, and is small enough that a number is harder to guess than a port.
const Reach = 1 << 16

// maxWait bounds the time that a CHALLENGE stays unanswered before this side changes its port again.
const maxWait = time.Second

// Challenge is the newest CHALLENGE. The zero value was never sent.
type Challenge struct {
	nonce     uint64
	at        clock.Time // when it was last sent
	since     clock.Time // when it was first sent, or when our port last changed because of it
	doublings uint8      // doublings of the time until the next change
	out       bool       // not answered yet
}

// Due reports whether another CHALLENGE may leave: gap after the previous one.
func (ch *Challenge) Due(now clock.Time, gap time.Duration) bool {
	return ch.at == 0 || now.Sub(ch.at) >= gap
}

// Send records a CHALLENGE and returns its nonce: fresh, or the previous nonce if it was not answered, because the answer may take
// longer than the last round trip.
func (ch *Challenge) Send(now clock.Time, fresh uint64) uint64 {
	if !ch.out {
		ch.nonce, ch.out, ch.since = fresh, true, now
	}
	ch.at = now
	return ch.nonce
}

// Answered reports, once, whether the nonce is the one that was sent.
func (ch *Challenge) Answered(nonce uint64) bool {
	if !ch.out || nonce != ch.nonce {
		return false
	}
	ch.out, ch.doublings = false, 0
	return true
}

// InVain reports whether the CHALLENGE has not been answered for timeout, which doubles each time. The caller then changes the
// port.
func (ch *Challenge) InVain(now clock.Time, timeout time.Duration) bool {
	wait := min(timeout<<ch.doublings, maxWait)
	if !ch.out || now.Sub(ch.since) < wait {
		return false
	}
	ch.since = now
	if wait < maxWait {
		ch.doublings++
	}
	return true
}
