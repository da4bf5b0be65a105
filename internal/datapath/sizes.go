package datapath

import (
	"cmp"
	"math/bits"

	"github.com/ndxdp/ndxdp/xdp"
)

// MaxFrameMemory bounds the memory of the frames of all queues of an adapter, in bytes: all of it is pinned, and a NIC may have as many
// queues as the machine has processors. So what a queue gets falls with their number, from 64 to 16 MiB: the traffic of an interface
// spreads over its queues.
const MaxFrameMemory = 1 << 30

// sizes are the frames and ring slots of each queue. There are more receive frames than slots of the rx ring, so that a full one
// does not starve the fill ring, and the fill ring has twice as many slots.
type sizes struct {
	rxFrames, txFrames                       uint32
	rxRing, fillRing, txRing, completionRing uint32
}

// sizesOf chooses for so many queues, at most MaxQueues.
func sizesOf(queues int) sizes {
	switch {
	case queues <= 2: // a window of 256 packets of 64 KiB, 17 frames each, and as much held behind gaps
		return sizes{rxFrames: 12288, txFrames: 4096, rxRing: 4096, fillRing: 8192, txRing: 4096, completionRing: 4096}
	case queues <= 16:
		return sizes{rxFrames: 8192, txFrames: 4096, rxRing: 4096, fillRing: 8192, txRing: 4096, completionRing: 4096}
	case queues <= 32:
		return sizes{rxFrames: 6144, txFrames: 2048, rxRing: 4096, fillRing: 8192, txRing: 2048, completionRing: 2048}
	}
	return sizes{rxFrames: 3072, txFrames: 1024, rxRing: 2048, fillRing: 4096, txRing: 1024, completionRing: 1024}
}

// config is that of the socket of a queue, as far as it is sizes.
func (s *sizes) config() xdp.Config {
	return xdp.Config{
		RxFrames: s.rxFrames, TxFrames: s.txFrames,
		RxRing: s.rxRing, FillRing: s.fillRing, TxRing: s.txRing, CompletionRing: s.completionRing,
	}
}

// Pinned is how many bytes of memory an adapter with so many receive queues pins over AF_XDP, besides its arena.
func Pinned(queues int) int {
	s := sizesOf(queues)
	return max(queues, 1) * int(s.rxFrames+s.txFrames) * xdp.FrameSize
}

// zeroCopy changes the sizes for a driver that takes everybody's packets into the receive frames: all of them go into the fill ring, and
// few can be kept from it by a process that stops.
func (s sizes) zeroCopy() sizes {
	s.rxRing = 1 << (bits.Len32(s.rxFrames/4) - 1)
	s.fillRing = 1 << bits.Len32(s.rxFrames-1)
	return s
}

// spares are the receive frames of a queue that packets which wait behind gaps must leave to others.
type spares struct {
	zeroCopy bool
	rxRing   uint32 // slots
	device   int    // descriptors of the device's own ring
}

// freeFrames is what they are in copy mode: the packet that fills a gap needs one.
const freeFrames = 1024

// frames is how many that are, for packets of so many frames. In zero-copy mode a process that stops keeps a full rx ring, a batch that
// the engine looks at and what it has not put back yet; what is left fills the device's ring, so that all others are still
// received.
func (s spares) frames(per int) int {
	if !s.zeroCopy {
		return freeFrames
	}
	return int(s.rxRing) + rxDescs*per + xdp.RefillBatch + cmp.Or(s.device, usualDeviceRing)
}

// usualDeviceRing stands for the ring of a driver that does not tell its length.
const usualDeviceRing = 1024

// holds is how many packets of up to size bytes may wait behind gaps on a queue with so many receive frames. It is not positive when
// there are too few frames to hold any.
func holds(frames uint32, size int, s spares) int {
	per := (size + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes
	return (int(frames) - s.frames(per)) / per
}
