// Package answers keeps what a connection owes its peer in the response space, the bytes of READs and TERM, and what the peer owes it. It knows neither connection nor when packets may leave; whoever
// owns the connection calls it.
package answers
