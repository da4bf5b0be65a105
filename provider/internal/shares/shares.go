// Package shares decides how many bytes a connection may send before the next connection sends.
package shares

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// Most is at most one GSO batch of full packets at MTU 1500.
	Most = 63 << 10
	// mostTurn is slightly more, so that two packets of 65,000 bytes leave in one call.
	mostTurn = 64 << 10
	// Small is the share of a connection beside connections that send little, which wait while the share is sent. It is also the
	// limit of a poll then.
	Small = 16 << 10
	// turnLimit limits the bytes sent in a poll, in whole packets. Polls are short so that acknowledgements are handled while much
	// data leaves.
	turnLimit = 256 << 10

	// little is the most that a connection sends at a time to count as sending little. Each observation counts for mixedFor,
	// because a connection that waits longer for an answer does not notice a share.
	little   = 4 << 10
	mixedFor = time.Millisecond
	// bulkFor is how long a connection that sent more counts as one that does: the beginning and the end of its next long answer are short.
	bulkFor = 100 * time.Millisecond
)

// Shares computes the share of the connections of an engine. The engine's owner uses it. The zero value has seen no connection.
type Shares struct {
	bulkAt   clock.Time // when a connection last sent more than little
	sparseAt clock.Time // when a connection that sends little last did so
}

// Sends is when a connection last sent more than little; zero is never.
type Sends clock.Time

// At returns the share of a connection, and the limit of bytes for a poll in which waiting connections have data.
func (s *Shares) At(now clock.Time, waiting int) (share, turn int) {
	if s.Mixed(now) {
		return Small, Small / 2 // a packet that would exceed the share ends it
	}
	return Most, min(turnLimit, mostTurn*waiting)
}

// Mixed reports whether some connections send little and others send much.
func (s *Shares) Mixed(now clock.Time) bool {
	return s.sparseAt != 0 && now.Sub(s.sparseAt) < mixedFor && now.Sub(s.bulkAt) < mixedFor
}

// Sent records that a connection sent bytes in its share.
func (s *Shares) Sent(by *Sends, bytes int, now clock.Time) {
	switch {
	case bytes > little:
		*by, s.bulkAt = Sends(now), now
	case bytes > 0 && (*by == 0 || now.Sub(clock.Time(*by)) >= bulkFor):
		s.sparseAt = now
	}
}
