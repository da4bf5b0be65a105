// Package lifetime handles how a connection begins, stays alive and ends (PROTOCOL §7, §8, §9.5). It has the phases, the repetition
// of handshake and final messages, and keep-alives. It is a function of received messages and times: it sends nothing and ends
// nothing. The owner of the engine calls it.
package lifetime

import "time"

const (
	// FirstRetry is the time until a handshake or final message is first repeated. The gap doubles with each repetition.
	FirstRetry = 20 * time.Millisecond
	// ThinkTime is how long an answer may take before the peer is told that this side is alive. On a path with a round trip below the rest of
	// FirstRetry, the peer then repeats nothing.
	ThinkTime = FirstRetry / 2
	// MaxRetry is the longest gap between repetitions, and the probe interval of a half-open connection.
	MaxRetry = time.Second
	// MaxCookies is the number of RETRYs accepted in one attempt (PROTOCOL §7.5).
	MaxCookies = 8
	// PingInterval is the time between keep-alive probes to a silent peer.
	PingInterval = time.Second
	// MaxPings is the number of unanswered keep-alive probes after which the peer counts as dead.
	MaxPings = 5
)
