package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The endpoint window answers a receiver that cannot keep up: its memory fills although the network is empty. Every ACK
// carries a load byte; the sender keeps it near the middle.

// Pressured is a Link that knows how full its receive memory is.
type Pressured interface {
	// Pressure is 0 when the receive rings are as they should be, 255 when packets are about to be dropped.
	Pressure() uint8
}

const (
	// loadHigh is the load above which senders slow down.
	loadHigh = 128
	minEndpt = windowUnit
)

// measureLoad notes, once per receive batch, how close the receiving side is to dropping packets: the fuller of the link's
// rings and the pool of packets that wait behind gaps.
func (e *Engine) measureLoad() {
	held := len(e.held) - len(e.freeHeld)
	load := min(held*256/len(e.held), 255)
	if e.pressured != nil {
		load = max(load, int(e.pressured.Pressure()))
	}
	e.load = uint8(load)
}

// endpointWindow is the window that the peer's load allows.
type endpointWindow struct {
	window int
	at     clock.Time // when it last changed
}

func (w *endpointWindow) reset() { *w = endpointWindow{window: maxFabric} }

// heard takes in the load byte of an ACK: AIMD, one step per round trip.
func (w *endpointWindow) heard(now clock.Time, load uint8, smoothed time.Duration) {
	if load <= loadHigh && w.window == maxFabric || now.Sub(w.at) <= smoothed {
		return
	}
	w.at = now
	if load <= loadHigh {
		w.window = min(w.window+windowUnit, maxFabric)
		return
	}
	// times 1 - 0.5*(load-128)/128
	w.window = max(w.window-w.window/256*(int(load)-loadHigh), minEndpt)
}
