package credit

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// State is the receiver's state for a peer that waits for a receive.
type State uint8

const (
	None     State = iota // the peer does not wait
	Asked                 // the peer has reached its limit and asked for more
	Starved               // a SEND arrived without a receive; the peer is told RNR
	Promised              // a receive was posted; the peer is told until its SEND arrives
)

// maxTold is how often a peer is offered a receive before another peer gets it. The offers take at least 100 ms in all, which is
// longer than a peer is usually descheduled. Afterwards the peer must ask.
const maxTold = 10

const (
	// minGap is the least time between two repetitions. An active peer answers sooner.
	minGap = 100 * time.Microsecond
	// maxGap is the longest time between two repetitions of a promise.
	maxGap = time.Second
)

// Wait is the receiver's side of a wait. The zero Wait has no waiting peer.
type Wait struct {
	state State
	told  uint8      // how often the peer was told of the receive
	at    clock.Time // Starved: beginning of the wait; Promised: time of the next repetition
}

// State returns the state of the wait.
func (w *Wait) State() State { return w.state }

// Ask records that a peer without receives asked for one.
func (w *Wait) Ask() {
	if w.state == None {
		w.state = Asked
	}
}

// Starve records that a SEND found no receive. It returns false if the wait was already Starved.
func (w *Wait) Starve(now clock.Time) (fresh bool) {
	if w.state == Starved {
		return false
	}
	*w = Wait{state: Starved, at: now}
	return true
}

// Unpromised reports whether the peer waits and was not told of a receive.
func (w *Wait) Unpromised() bool { return w.state == Asked || w.state == Starved }

// Promise begins to tell the peer that there is a receive.
func (w *Wait) Promise() { *w = Wait{state: Promised} }

// Tell records that the peer is told now. trip is the round trip of the path. It returns false after maxTold repetitions.
func (w *Wait) Tell(now clock.Time, trip time.Duration) bool {
	if w.told == maxTold {
		return false
	}
	w.at = now.Add(min(max(trip+trip/2, minGap)<<w.told, maxGap))
	w.told++
	return true
}

// Due returns the time of the next action: the repetition of a promise, or the end of patience with a starved wait. Zero is never.
func (w *Wait) Due(patience time.Duration) clock.Time {
	switch w.state {
	case Promised:
		return w.at
	case Starved:
		return w.at.Add(patience)
	case None, Asked:
	}
	return 0
}
