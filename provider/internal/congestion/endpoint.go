package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// LoadHigh is the load of a receiver above which senders slow down.
const LoadHigh = 128

// endpoint is the window that the peer's load allows. It slows down for a receiver that cannot keep up: the receiver's memory fills
// although the network is empty. Each ACK has a load byte, and the sender keeps it near the middle.
type endpoint struct {
	window int
	at     clock.Time // time of the last change
}

func (w *endpoint) reset() { *w = endpoint{window: MaxWindow} }

// heard handles the load byte of an ACK by AIMD, one step per round trip. A decrease starts from the window for the network,
// because the receiver cannot have seen more.
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
	// multiplied by 1 - 0.5*(load-128)/128
	from := min(w.window, network)
	w.window = max(from-from/256*(int(load)-LoadHigh), packet)
}
