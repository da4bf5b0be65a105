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

// heard takes in the load byte of an ACK: AIMD, one step per round trip, from the window for the network down, which is all that the
// receiver can have met.
func (w *endpoint) heard(now clock.Time, load uint8, packet, network int, smoothed time.Duration) {
	if load <= LoadHigh && w.window == MaxWindow || now.Sub(w.at) <= smoothed {
		return
	}
	w.at = now
	if load <= LoadHigh {
		if w.window += packet; w.window > 2*network {
			w.window = MaxWindow
		}
		return
	}
	// times 1 - 0.5*(load-128)/128
	from := min(w.window, network)
	w.window = max(from-from/256*(int(load)-LoadHigh), packet)
}
