package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// This file decides how many bytes a connection may send before the next connection sends.

const (
	// mostShare is at most one GSO batch of full packets at MTU 1500.
	mostShare = 63 << 10
	// mostTurn is slightly more, so that two packets of 65,000 bytes leave in one call.
	mostTurn = 64 << 10
	// smallShare is the share of a connection beside connections that send little, which wait while the share is sent. It is also the
	// limit of a poll then. A long packet may exceed it, because splitting one costs the kernel more than sending it whole.
	smallShare = 16 << 10
	// turnLimit limits the bytes sent in a poll, in whole packets. Polls are short so that acknowledgements are handled while much
	// data leaves.
	turnLimit = 256 << 10

	// littleSent is the most that a connection sends at a time to count as sending little. Each observation counts for mixedFor,
	// because a connection that waits longer for an answer does not notice a share.
	littleSent = 4 << 10
	mixedFor   = time.Millisecond
	// bulkFor is how long a connection that sent more counts as one that does: the beginning and the end of its next long answer are short.
	bulkFor = 100 * time.Millisecond
)

// shares computes the share of the connections of an engine. The engine's owner uses it. The zero value has seen no connection.
type shares struct {
	bulkAt   clock.Time // when a connection last sent more than littleSent
	sparseAt clock.Time // when a connection that sends little last did so
}

// shareSends is when a connection last sent more than littleSent; zero is never.
type shareSends clock.Time

// At returns the share of a connection, and the limit of bytes for a poll in which waiting connections have data.
func (s *shares) At(now clock.Time, waiting int) (share, turn int) {
	if s.Mixed(now) {
		return smallShare, smallShare / 2 // a packet that would exceed the share ends it
	}
	return mostShare, min(turnLimit, mostTurn*waiting)
}

// Mixed reports whether some connections send littleSent and others send much.
func (s *shares) Mixed(now clock.Time) bool {
	return s.sparseAt != 0 && now.Sub(s.sparseAt) < mixedFor && now.Sub(s.bulkAt) < mixedFor
}

// Sent records that a connection sent bytes in its share.
func (s *shares) Sent(by *shareSends, bytes int, now clock.Time) {
	switch {
	case bytes > littleSent:
		*by, s.bulkAt = shareSends(now), now
	case bytes > 0 && (*by == 0 || now.Sub(clock.Time(*by)) >= bulkFor):
		s.sparseAt = now
	}
}
