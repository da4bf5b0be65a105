// Package shares is how many bytes a connection may send before it is the next one's turn.
package shares

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// Most is not above a burst of full packets at MTU 1500, so that they leave in one run.
	Most = 63 << 10
	// mostTurn is more than that, so that two packets of 65,000 bytes leave in one call.
	mostTurn = 64 << 10
	// Small is a share beside connections that send little, and a turn: while a share is sent, they wait.
	Small = 16 << 10
	// turnLimit ends what is sent in a turn; a packet is never cut for it. A turn is short so that acknowledgements are answered while much goes out.
	turnLimit = 256 << 10

	// little is the most bytes that such a connection sends at a time. It counts for mixedFor, like a connection that sends more: one that
	// waits longer for an answer does not notice a share.
	little   = 4 << 10
	mixedFor = time.Millisecond
)

// Shares is how large the shares of all connections of an engine are, whose owner calls it. Its zero value has seen none.
type Shares struct {
	bulk     uint32     // slot, plus one, of the connection that sent more than little last; zero for none
	bulkAt   clock.Time // when that was
	sparseAt clock.Time // when another one last sent less
}

// At is one connection's share, and after how many bytes a turn ends in which so many connections wait.
func (s *Shares) At(now clock.Time, waiting int) (share, turn int) {
	if s.Mixed(now) {
		return Small, Small / 2 // a packet that would exceed the share ends it
	}
	return Most, min(turnLimit, mostTurn*waiting)
}

// Mixed says that some connections send little, and others much.
func (s *Shares) Mixed(now clock.Time) bool {
	return s.sparseAt != 0 && now.Sub(s.sparseAt) < mixedFor && now.Sub(s.bulkAt) < mixedFor
}

// Sent takes in that the connection of a slot sent so many bytes when it was its turn.
func (s *Shares) Sent(slot uint32, bytes int, now clock.Time) {
	switch {
	case bytes > little:
		s.bulk, s.bulkAt = slot+1, now
	case bytes > 0 && s.bulk != slot+1:
		s.sparseAt = now
	}
}
