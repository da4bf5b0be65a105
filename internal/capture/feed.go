package capture

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Bounds of a feed.
const (
	// WholePacket is a Config.Snap that cuts nothing.
	WholePacket = wire.MaxPacket
	// DefaultBytes is what an engine's packets may take while they wait for the reader: 16 ms at 8 Gb/s.
	DefaultBytes = 16 << 20
	// bytesPerSlot is how small packets may be on average until a ring has no slot for more although it has bytes.
	bytesPerSlot = 512
)

// Config says what a feed keeps.
type Config struct {
	Snap  int       // bytes kept of every ND packet; 0 is WholePacket
	Bytes int       // memory for the packets of one engine, rounded up to a power of two, 128 KiB at least; 0 is DefaultBytes
	MAC   [6]byte   // of the adapter, for the frames; zero where there is none
	Epoch time.Time // the wall clock when Origin was read
	// Origin is a reading of the engines' clock.
	Origin clock.Time
}

// minBytes holds the largest packet twice.
const minBytes = 1 << 17

// Feed gathers the packets of an adapter's engines for one reader.
type Feed struct {
	snap   int
	mac    [6]byte
	epoch  time.Time
	origin clock.Time
	rings  []*ring

	// sleeping says that the reader waits for wake. The goroutine that clears it sends wake once.
	sleeping atomic.Bool
	wake     chan struct{}
}

// NewFeed makes a feed for so many engines. Its taps go to Engine.SetTap.
func NewFeed(cfg Config, engines int) *Feed {
	if cfg.Snap <= 0 {
		cfg.Snap = WholePacket
	}
	if cfg.Bytes <= 0 {
		cfg.Bytes = DefaultBytes
	}
	size := 1 << bits.Len(uint(max(cfg.Bytes, minBytes)-1))
	f := &Feed{snap: cfg.Snap, mac: cfg.MAC, epoch: cfg.Epoch, origin: cfg.Origin, wake: make(chan struct{}, 1)}
	for i := range engines {
		f.rings = append(f.rings, &ring{feed: f, queue: i, slots: make([]slot, size/bytesPerSlot), bytes: make([]byte, size)})
	}
	return f
}

// Tap returns the tap of an engine, by its place in the group.
func (f *Feed) Tap(engine int) provider.Tap { return f.rings[engine] }

// Lost is how many packets did not fit. Anyone may call it.
func (f *Feed) Lost() (n uint64) {
	for _, r := range f.rings {
		n += r.missed.Load()
	}
	return n
}

// alert wakes the reader if it sleeps.
func (f *Feed) alert() {
	if f.sleeping.Load() && f.sleeping.CompareAndSwap(true, false) {
		f.wake <- struct{}{} // has room: one send for each time that sleeping was set
	}
}

// Next waits for a packet and puts it into p, whose Frame is reused. It returns ctx's cause when that ends, but takes what is
// there first. The reader calls it.
func (f *Feed) Next(ctx context.Context, p *Packet) error {
	for {
		if f.take(p) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f.sleeping.Store(true)
		if f.take(p) { // came in between
			f.rouse()
			return nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			f.rouse()
		}
	}
}

// rouse takes back that the reader sleeps, and the wake-up that may have been sent.
func (f *Feed) rouse() {
	if !f.sleeping.CompareAndSwap(true, false) {
		<-f.wake
	}
}

// take puts the oldest packet that is there into p.
func (f *Feed) take(p *Packet) bool {
	var from *ring
	var oldest *slot
	for _, r := range f.rings {
		if s := r.peek(); s != nil && (oldest == nil || s.packet.At < oldest.packet.At) {
			from, oldest = r, s
		}
	}
	if from == nil {
		return false
	}
	t := &oldest.packet
	p.Time, p.Queue, p.Sent, p.CE, p.Held = f.epoch.Add(t.At.Sub(f.origin)), from.queue, t.Sent, t.CE, t.Held
	p.Drop, p.ConnID, p.State = t.Drop, t.ConnID, t.State
	f.frame(p, from, oldest)
	from.pop(oldest)
	return true
}
