package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// LoadHigh is the load of a receiver above which senders slow down.
const LoadHigh = 128

// endpoint is the window that the peer's load allows. It answers a receiver that cannot keep up: its memory fills although the network
// is empty. Every ACK carries a load byte; the sender keeps it near the middle.
type endpoint struct {
	window int
	at     clock.Time // when it last changed
}

func (w *endpoint) reset() { *w = endpoint{window: MaxWindow} }

// heard takes in the load byte of an ACK: AIMD, one step per round trip.
func (w *endpoint) heard(now clock.Time, load uint8, smoothed time.Duration) {
	if load <= LoadHigh && w.window == MaxWindow || now.Sub(w.at) <= smoothed {
		return
	}
	w.at = now
	if load <= LoadHigh {
		w.window = min(w.window+Unit, MaxWindow)
		return
	}
	// times 1 - 0.5*(load-128)/128
	w.window = max(w.window-w.window/256*(int(load)-LoadHigh), Unit)
}
