package credit

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// State is what the receiving side does about a peer that waits for a receive.
type State uint8

const (
	None     State = iota // nobody waits
	Asked                 // the peer has used up its limit and asked for more
	Starved               // a SEND came and found no receive; the peer is told RNR
	Promised              // there is a receive; the peer is told until its packet comes
)

// maxTold is how often a peer is offered a receive before the receive goes to another peer. The offers take at least 100 ms in all,
// which a descheduled peer outlasts. Afterwards the peer has to ask.
const maxTold = 10

const (
	// minGap is the least time until something is said again: a peer that is at work answers sooner.
	minGap = 100 * time.Microsecond
	// maxGap is the most that a promise waits to be repeated.
	maxGap = time.Second
)

// Wait is the receiving side of a wait. Its zero value is that nobody waits.
type Wait struct {
	state State
	told  uint8      // how often the peer was told that there is a receive
	at    clock.Time // starved: since when; promised: when to tell again
}

// State returns what is done about the wait.
func (w *Wait) State() State { return w.state }

// Ask notes that a peer without any receive left asked for one.
func (w *Wait) Ask() {
	if w.state == None {
		w.state = Asked
	}
}

// Starve notes that a SEND found no receive. It reports false when that was known.
func (w *Wait) Starve(now clock.Time) (fresh bool) {
	if w.state == Starved {
		return false
	}
	*w = Wait{state: Starved, at: now}
	return true
}

// Unpromised says whether a peer waits that was not told of a receive.
func (w *Wait) Unpromised() bool { return w.state == Asked || w.state == Starved }

// Promise begins to tell the peer that there is a receive.
func (w *Wait) Promise() { *w = Wait{state: Promised} }

// Tell notes that the peer is told now, over a path with this round trip. It reports false when it was told often enough.
func (w *Wait) Tell(now clock.Time, trip time.Duration) bool {
	if w.told == maxTold {
		return false
	}
	w.at = now.Add(min(max(trip+trip/2, minGap)<<w.told, maxGap))
	w.told++
	return true
}

// Due returns when the wait wants attention: a promise to be told again, a starved peer after patience. Zero is never.
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
