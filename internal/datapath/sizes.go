package datapath

import (
	"cmp"
	"math/bits"

	"github.com/ndxdp/ndxdp/xdp"
)

// MaxFrameMemory bounds the memory of the frames of all queues of an adapter, in bytes: all of it is pinned, and a NIC may have as many
// queues as the machine has processors. So what a queue gets falls with their number: the traffic of an interface spreads over its queues.
const MaxFrameMemory = 1 << 30

// sizes are the frames and ring slots of each queue. There are more receive frames than slots of the rx ring, so that a full one
// does not starve the fill ring, and the fill ring has twice as many slots. A slot costs little, and a frame a page.
type sizes struct {
	rxFrames, txFrames                       uint32
	rxRing, fillRing, txRing, completionRing uint32
}

// sizesOf chooses for so many queues, at most MaxQueues, what a driver needs that takes everybody's packets into the frames (zeroCopy):
// 64 to 16 MiB. In copy mode no queue has more either.
func sizesOf(queues int) sizes {
	switch {
	case queues <= 2:
		return sizes{rxFrames: 12288, txFrames: 4096, rxRing: 4096, fillRing: 8192, txRing: 4096, completionRing: 4096}
	case queues <= 16:
		return sizes{rxFrames: 8192, txFrames: 4096, rxRing: 4096, fillRing: 8192, txRing: 4096, completionRing: 4096}
	case queues <= 32:
		return sizes{rxFrames: 6144, txFrames: 2048, rxRing: 4096, fillRing: 8192, txRing: 2048, completionRing: 2048}
	}
	return sizes{rxFrames: 3072, txFrames: 1024, rxRing: 2048, fillRing: 4096, txRing: 1024, completionRing: 1024}
}

// copying changes the sizes for copy mode, in which only ND packets of up to packet bytes lie in the frames. The kernel pins all memory
// when a socket is opened, so what is there for the worst case is there for an idle adapter: 14 MiB up to packets of three frames, 28 MiB
// above. The receive frames are a window of the largest packets and as much again behind gaps or in the ring; those to send are several
// batches, because the kernel gives them back as soon as it has sent.
func (s sizes) copying(packet int) sizes {
	frames := sizes{rxFrames: 3072, txFrames: 512, rxRing: 2048, fillRing: 4096}
	if framesOf(packet) > jumboFrames {
		frames = sizes{rxFrames: 6144, txFrames: 1024, rxRing: 4096, fillRing: 8192}
	}
	s.rxFrames, s.txFrames = min(s.rxFrames, frames.rxFrames), min(s.txFrames, frames.txFrames)
	s.rxRing, s.fillRing = min(s.rxRing, frames.rxRing), min(s.fillRing, frames.fillRing)
	return s // the rings to send hold what leaves from the arena as well
}

// jumboFrames hold a packet of MTU 9000, the most that networks outside a machine carry.
const jumboFrames = 3

// framesOf is how many receive frames a packet takes.
func framesOf(packet int) int { return (packet + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes }

// config is that of the socket of a queue, as far as it is sizes.
func (s *sizes) config() xdp.Config {
	return xdp.Config{
		RxFrames: s.rxFrames, TxFrames: s.txFrames,
		RxRing: s.rxRing, FillRing: s.fillRing, TxRing: s.txRing, CompletionRing: s.completionRing,
	}
}

// Pinned is how many bytes of memory an adapter of an interface with so many receive queues pins over AF_XDP at the most, besides its
// arena. In native mode the driver may have zero-copy.
func Pinned(queues, mtu int, native bool) int {
	s := sizesOf(queues)
	if !native {
		s = s.copying(mtu)
	}
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
	per := framesOf(size)
	return (int(frames) - s.frames(per)) / per
}
