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
	// Small is a share beside a connection that sends little: while a share is sent, that one waits.
	Small = 24 << 10

	// little is what such a connection sends at a time at the most, and it counts for sparseFor.
	little    = 4 << 10
	sparseFor = 10 * time.Millisecond
)

// Shares is how large the shares of all connections of an engine are, whose owner calls it. Its zero value has seen none.
type Shares struct {
	bulk     uint32     // slot, plus one, of the connection that sent more than little last; zero for none
	sparseAt clock.Time // when another one last sent less
}

// At is one connection's share, and for how many bytes a turn lets each begin another one.
func (s *Shares) At(now clock.Time) (share, turn int) {
	if s.sparseAt != 0 && now.Sub(s.sparseAt) < sparseFor {
		return Small, Small
	}
	return Most, mostTurn
}

// Sent takes in that the connection of a slot sent so many bytes when it was its turn.
func (s *Shares) Sent(slot uint32, bytes int, now clock.Time) {
	switch {
	case bytes > little:
		s.bulk = slot + 1
	case bytes > 0 && s.bulk != slot+1:
		s.sparseAt = now
	}
}
