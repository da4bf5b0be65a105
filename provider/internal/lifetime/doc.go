// Package lifetime is how a connection begins, stays alive and ends (PROTOCOL §7, §8, §9.5): its phases, the handshake and final messages,
// which are repeated until the peer answers, and the keep-alives for a silent peer. Everything is a function of received messages and of
// times. Nothing here sends or ends anything. The owner of the engine calls it.
package lifetime

import "time"

const (
	// FirstRetry is after what time a message of the handshake or of the end is repeated first. The gap doubles with every repetition.
	FirstRetry = 20 * time.Millisecond
	// MaxRetry is the longest gap, which is also the probe interval of a half-open connection.
	MaxRetry = time.Second
	// MaxCookies is how many RETRYs one attempt follows (PROTOCOL §7.5).
	MaxCookies = 8
	// PingInterval is the time between keep-alive probes, once the peer was silent for too long.
	PingInterval = time.Second
	// MaxPings is how many of them are sent before the peer counts as dead.
	MaxPings = 5
)
