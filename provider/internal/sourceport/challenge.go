// Package sourceport decides about the UDP source ports of a connection's two ends (PROTOCOL §6.1): how a peer proves another one, and when our
// own has to change. Its objects are values without locks or allocations; whoever owns the connection calls them.
package sourceport

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Reach is how far the number of a packet from an unproven port may be from the largest number heard. It is more than ever in flight, and
// so little that it is harder to guess than a port.
const Reach = 1 << 16

// maxWait bounds how long a CHALLENGE waits before our own port changes once more.
const maxWait = time.Second

// Challenge is the CHALLENGE that was sent last. There is one at a time. Its zero value was never sent.
type Challenge struct {
	nonce     uint64
	at        clock.Time // when it was sent last
	since     clock.Time // when it was sent first, or our port changed because of it
	doublings uint8      // of the time until the next change
	out       bool       // not answered
}

// Due says whether another challenge may be sent: gap after the previous one.
func (ch *Challenge) Due(now clock.Time, gap time.Duration) bool {
	return ch.at == 0 || now.Sub(ch.at) >= gap
}

// Send notes a challenge and returns its nonce: fresh, or the unanswered previous nonce, because its answer may be in flight for longer
// than the last round trip.
func (ch *Challenge) Send(now clock.Time, fresh uint64) uint64 {
	if !ch.out {
		ch.nonce, ch.out, ch.since = fresh, true, now
	}
	ch.at = now
	return ch.nonce
}

// Answered says, once, whether a nonce is the one that was sent.
func (ch *Challenge) Answered(nonce uint64) bool {
	if !ch.out || nonce != ch.nonce {
		return false
	}
	ch.out, ch.doublings = false, 0
	return true
}

// InVain says whether what was sent has not been answered for timeout, which doubles with each time. The caller changes the port then.
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
