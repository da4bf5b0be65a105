package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// minFlight is what the cap on packets in flight always allows: two batches, so that one is on its way while the other
// is made, however short the round trip.
const minFlight = 2 * 32

// flightCap bounds packets in flight to twice what the path holds (IRN, SIGCOMM 2018: bandwidth times round trip), measured
// over round trips, with our own share of the round trip counted in.
type flightCap struct {
	packets   int // twice the product, decaying
	delivered int
	from      clock.Time
}

func (f *flightCap) cap() int { return max(f.packets, minFlight) * Unit }

func (f *flightCap) acked(b *batch) {
	if b.delay == 0 { // somebody was off its core: the time that passed is not the path's
		f.delivered, f.from = 0, b.Now
		return
	}
	f.delivered += b.packets
	elapsed := b.Now.Sub(f.from)
	if elapsed < b.round || b.round == 0 {
		return
	}
	product := int(2 * time.Duration(f.delivered) * (b.Base + b.Own) / elapsed)
	f.packets = min(max(product, f.packets-f.packets/8), MaxPackets)
	f.delivered, f.from = 0, b.Now
}

// Fixed is a Control that keeps one window, in 1/Unit of a packet, whatever happens.
type Fixed struct{ Window int }

func (f *Fixed) start(s *State) {
	s.window = f.Window
	s.flight.packets = MaxPackets
}

func (f *Fixed) acked(s *State, _ *batch) time.Duration {
	f.start(s)
	return 0
}
func (*Fixed) lost(*State, int, int) {}
func (*Fixed) timedOut(*State)       {}
