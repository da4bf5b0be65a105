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
)

// Shares computes the share of the connections of an engine. The engine's owner uses it. The zero value has seen no connection.
type Shares struct {
	bulk     uint32     // slot plus one of the connection that last sent more than little; zero for none
	bulkAt   clock.Time // time of this
	sparseAt clock.Time // when another connection last sent less
}

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

// Sent records that the connection in a slot sent bytes.
func (s *Shares) Sent(slot uint32, bytes int, now clock.Time) {
	switch {
	case bytes > little:
		s.bulk, s.bulkAt = slot+1, now
	case bytes > 0 && s.bulk != slot+1:
		s.sparseAt = now
	}
}
