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

// Limits of a feed.
const (
	// WholePacket as Config.Snap captures whole packets.
	WholePacket = wire.MaxPacket
	// DefaultBytes is the default memory for an engine's packets until the reader takes them: 16 ms at 8 Gb/s.
	DefaultBytes = 16 << 20
	// bytesPerSlot is the average packet size below which a ring runs out of slots before it runs out of bytes.
	bytesPerSlot = 512
)

// Config configures a feed.
type Config struct {
	Snap  int       // bytes captured of every ND packet; 0 is WholePacket
	Bytes int       // memory for the packets of one engine, rounded up to a power of two of at least 128 KiB; 0 is DefaultBytes
	MAC   [6]byte   // of the adapter, for the frames; zero if it has none
	Epoch time.Time // wall clock when Origin was read
	// Origin is a reading of the engines' clock.
	Origin clock.Time
}

// minBytes is twice the size of the largest packet.
const minBytes = 1 << 17

// Feed collects the packets of an adapter's engines for one reader.
type Feed struct {
	snap   int
	mac    [6]byte
	epoch  time.Time
	origin clock.Time
	rings  []*ring

	// sleeping means that the reader waits for wake. The goroutine that clears it sends one wake.
	sleeping atomic.Bool
	wake     chan struct{}
}

// NewFeed returns a feed for this many engines. Its taps are passed to Engine.SetTap.
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

// Tap returns the tap of an engine, by its index.
func (f *Feed) Tap(engine int) provider.Tap { return f.rings[engine] }

// Lost returns the number of packets that did not fit. Any goroutine may call it.
func (f *Feed) Lost() (n uint64) {
	for _, r := range f.rings {
		n += r.missed.Load()
	}
	return n
}

// alert wakes the reader if it sleeps.
func (f *Feed) alert() {
	if f.sleeping.Load() && f.sleeping.CompareAndSwap(true, false) {
		f.wake <- struct{}{} // never blocks: one send for each time that sleeping was set
	}
}

// Next waits for a packet and stores it in p, whose Frame is reused. When ctx ends, it first returns waiting packets and then ctx's
// cause. The reader calls it.
func (f *Feed) Next(ctx context.Context, p *Packet) error {
	for {
		if f.take(p) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f.sleeping.Store(true)
		if f.take(p) { // a packet arrived meanwhile
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

// rouse clears sleeping, and takes a wake that was already sent.
func (f *Feed) rouse() {
	if !f.sleeping.CompareAndSwap(true, false) {
		<-f.wake
	}
}

// take stores the oldest packet in p. It returns false if there is none.
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
