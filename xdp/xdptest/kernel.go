// Package xdptest simulates the kernel's side of an AF_XDP socket's rings in ordinary memory, so that users of package xdp can be
// tested without privileges and without a device.
package xdptest

import (
	"errors"

	"github.com/ndxdp/ndxdp/xdp"
)

// Errors of Deliver. The packet is dropped, as the kernel does.
var (
	ErrFillEmpty = errors.New("xdptest: not enough frames in the fill ring")
	ErrRxFull    = errors.New("xdptest: rx ring full")
)

// Sizes are the ring sizes. All indices start at Origin; a value near 2^32 tests their wrap-around.
type Sizes struct {
	Rx, Fill, Tx, Completion int
	Origin                   uint32
}

// Kernel is the kernel's end of each ring. It has one owner, which may be another goroutine than the socket's owner.
type Kernel struct {
	umem       *xdp.UMEM
	rx         xdp.Producer[xdp.Desc]
	fill       xdp.Consumer[uint64]
	tx         xdp.Consumer[xdp.Desc]
	completion xdp.Producer[uint64]
	sent       []uint64 // taken from the tx ring, not completed yet; the capacity is the completion ring's size

	// FrameBytes is the number of packet bytes in one rx frame. A lower value tests packets of many frames.
	FrameBytes int
	// Hold delays completions until Complete is called, like a device with packets in flight.
	Hold bool
}

// Open makes a detached socket on u, and its kernel.
func Open(u *xdp.UMEM, cfg xdp.Config, sizes Sizes) (*xdp.Socket, *Kernel, error) {
	rings := xdp.Rings{
		Rx:         xdp.NewRingMemory[xdp.Desc](sizes.Rx, sizes.Origin),
		Tx:         xdp.NewRingMemory[xdp.Desc](sizes.Tx, sizes.Origin),
		Fill:       xdp.NewRingMemory[uint64](sizes.Fill, sizes.Origin),
		Completion: xdp.NewRingMemory[uint64](sizes.Completion, sizes.Origin),
	}
	k := &Kernel{
		umem:       u,
		rx:         xdp.NewProducer(rings.Rx),
		fill:       xdp.NewConsumer(rings.Fill),
		tx:         xdp.NewConsumer(rings.Tx),
		completion: xdp.NewProducer(rings.Completion),
		sent:       make([]uint64, 0, sizes.Completion),
		FrameBytes: xdp.RxFrameBytes,
	}
	s, err := xdp.OpenDetached(u, cfg, rings)
	if err != nil {
		return nil, nil, err
	}
	return s, k, nil
}

// Deliver receives a packet: it fills frames from the fill ring and publishes their descriptors.
func (k *Kernel) Deliver(packet []byte) error {
	n, err := k.write(packet)
	k.rx.Submit(n)
	return err
}

// DeliverPart receives a packet but publishes only its first descriptors. Publish publishes the rest. Deliver must not be called in
// between.
func (k *Kernel) DeliverPart(packet []byte, descs uint32) (rest uint32, err error) {
	n, err := k.write(packet)
	descs = min(descs, n)
	k.rx.Submit(descs)
	return n - descs, err
}

// Publish publishes n descriptors of DeliverPart.
func (k *Kernel) Publish(n uint32) { k.rx.Submit(n) }

func (k *Kernel) write(packet []byte) (uint32, error) {
	need := uint32(max(1, (len(packet)+k.FrameBytes-1)/k.FrameBytes))
	if k.rx.Reserve(need) < need {
		return 0, ErrRxFull
	}
	if k.fill.Reload(need) < need {
		return 0, ErrFillEmpty
	}
	for i := range need {
		addr := k.fill.Get(i) + xdp.RxHeadroom
		n := copy(k.umem.Frame(addr)[:k.FrameBytes], packet)
		packet = packet[n:]
		d := xdp.Desc{Addr: addr, Len: uint32(n)}
		if i+1 < need {
			d.Options = xdp.PacketContinues
		}
		k.rx.Set(i, d)
	}
	k.fill.Release(need)
	return need, nil
}

// Transmit takes the next packet from the tx ring, copies its bytes to dst and completes it, unless Hold is set. It returns the
// numbers of bytes and descriptors. descs is 0 if there is no packet, or no room to complete it.
func (k *Kernel) Transmit(dst []byte) (bytes, descs int) {
	available := k.tx.Reload(^uint32(0))
	for end := range available {
		if k.tx.Get(end).Options&xdp.PacketContinues != 0 {
			continue
		}
		if len(k.sent)+int(end)+1 > cap(k.sent) {
			return 0, 0
		}
		for i := range end + 1 {
			d := k.tx.Get(i)
			bytes += copy(dst[bytes:], k.umem.Bytes(d.Addr, int(d.Len)))
			k.sent = append(k.sent, d.Addr)
		}
		k.tx.Release(end + 1)
		if !k.Hold {
			k.Complete(len(k.sent))
		}
		return bytes, int(end) + 1
	}
	return 0, 0
}

// Complete publishes up to n due completions, in sending order, and returns their number.
func (k *Kernel) Complete(n int) int {
	room := k.completion.Reserve(uint32(min(n, len(k.sent))))
	for i := range room {
		k.completion.Set(i, k.sent[i])
	}
	k.completion.Submit(room)
	k.sent = k.sent[:copy(k.sent, k.sent[room:])]
	return int(room)
}

// Unsent returns the number of descriptors in the tx ring.
func (k *Kernel) Unsent() int { return int(k.tx.Reload(^uint32(0))) }

// FillLevel returns the number of frames in the fill ring.
func (k *Kernel) FillLevel() int { return int(k.fill.Reload(^uint32(0))) }
