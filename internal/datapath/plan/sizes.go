package plan

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// MaxFrameMemory bounds the memory of the frames of all queues of an adapter, in bytes. All of it is pinned, and a NIC may have as many
// queues as the machine has processors. So the more queues there are, the less memory a queue has: the traffic of an interface spreads
// over them.
const MaxFrameMemory = 1 << 30

// Sizes are the frames and ring slots of each queue. There are more receive frames than slots of the rx ring, so that a full rx ring does
// not starve the fill ring. The fill ring has twice as many slots. A slot costs little, while a frame costs a page.
type Sizes struct {
	RxFrames, TxFrames                       uint32
	RxRing, FillRing, TxRing, CompletionRing uint32
}

// sizesOf returns the sizes for a number of queues up to MaxQueues, 64 to 16 MiB for each queue. The driver receives all packets of the
// interface into the frames (ZeroCopy). In copy mode a queue has no more memory either.
func sizesOf(queues int) Sizes {
	switch {
	case queues <= 2:
		return Sizes{RxFrames: 12288, TxFrames: 4096, RxRing: 4096, FillRing: 8192, TxRing: 4096, CompletionRing: 4096}
	case queues <= 16:
		return Sizes{RxFrames: 8192, TxFrames: 4096, RxRing: 4096, FillRing: 8192, TxRing: 4096, CompletionRing: 4096}
	case queues <= 32:
		return Sizes{RxFrames: 6144, TxFrames: 2048, RxRing: 4096, FillRing: 8192, TxRing: 2048, CompletionRing: 2048}
	}
	return Sizes{RxFrames: 3072, TxFrames: 1024, RxRing: 2048, FillRing: 4096, TxRing: 1024, CompletionRing: 1024}
}

// copying changes the sizes for copy mode, in which only ND packets are in the frames. The kernel pins all memory when a socket is opened, so an
// idle adapter takes the memory for the worst case: 14 MiB. The receive frames hold the packets that arrive while the process is descheduled: 12
// MiB of large packets, or 3072 small ones. Packets behind gaps occupy no frames. The transmit frames hold several batches, because the kernel
// completes packets as soon as it has sent them.
func (s Sizes) copying() Sizes {
	s.RxFrames, s.TxFrames = min(s.RxFrames, 3072), min(s.TxFrames, 512)
	s.RxRing, s.FillRing = min(s.RxRing, 2048), min(s.FillRing, 4096)
	return s // the transmit rings also hold packets from the arena
}

// sending changes the sizes for a socket that never receives to the smallest possible.
func (s Sizes) sending() Sizes {
	s.RxRing, s.FillRing, s.RxFrames = 32, 64, 64
	return s
}

// framesOf returns how many receive frames a packet occupies.
func framesOf(packet int) int { return (packet + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes }

// Config returns the sizes in the configuration of a queue's socket.
func (s *Sizes) Config() xdp.Config {
	return xdp.Config{
		RxFrames: s.RxFrames, TxFrames: s.TxFrames,
		RxRing: s.RxRing, FillRing: s.FillRing, TxRing: s.TxRing, CompletionRing: s.CompletionRing,
	}
}

// Pinned returns how many bytes an adapter with so many receive queues pins over AF_XDP at most, in addition to its arena. In native mode
// the driver may have zero-copy.
func Pinned(queues int, datapath Datapath) int {
	s := sizesOf(queues)
	if datapath != Native {
		s = s.copying()
	}
	if datapath == TCX {
		s = s.sending()
	}
	return max(queues, 1) * int(s.RxFrames+s.TxFrames) * xdp.FrameSize
}

// leastPinned returns the least that an adapter has to pin. In native mode it copies if zero-copy needs too much.
func leastPinned(queues int, datapath Datapath) int {
	if datapath == Native {
		datapath = Generic
	}
	return Pinned(queues, datapath)
}

// zeroCopy changes the sizes for a driver that receives all packets of the queue into the receive frames. All frames go into the fill
// ring, and a stopped process can keep few of them from other programs.
func (s Sizes) zeroCopy() Sizes {
	s.RxRing = 1 << (bits.Len32(s.RxFrames/4) - 1)
	s.FillRing = 1 << bits.Len32(s.RxFrames-1)
	return s
}

// RxBatch is the number of frames that a queue takes from its ring at once.
const RxBatch = 64

// left returns how many receive frames are left for other programs in zero-copy mode if the process stops at the worst moment. The
// process then holds a full rx ring, a batch of packets of per frames each, and the frames that it has not recycled yet.
func (s *Sizes) left(per int) int {
	return int(s.RxFrames) - int(s.RxRing) - RxBatch*per - xdp.RefillBatch
}

// usualDeviceRing is the assumed ring length of a driver that does not report it.
const usualDeviceRing = 1024

// maxFrame is the largest packet a single-buffer socket receives.
const maxFrame = xdp.RxFrameBytes

// frameOverhead is the difference between a frame and the MTU: Ethernet header and one VLAN tag.
const frameOverhead = 14 + 4

// MaxPacket is the largest ND packet that an interface takes without fragments.
func MaxPacket(nic xdp.NIC, addr netip.Addr) (int, error) {
	n := PacketOf(nic.MTU, addr)
	if n < wire.MinPacket {
		least := LeastMTU(addr)
		return 0, fmt.Errorf("open %s on interface %s: MTU %d is too small: raise it to at least %d (ip link set %s mtu %d)",
			addr, nic.Name, nic.MTU, least, nic.Name, least)
	}
	return n, nil
}

// PacketOf returns the largest ND packet for an MTU: the MTU less the IP and UDP headers.
func PacketOf(mtu int, addr netip.Addr) int { return min(mtu-headersOf(addr), wire.MaxPacket) }

// headersOf returns the length of the IP and UDP headers.
func headersOf(addr netip.Addr) int {
	if addr.Unmap().Is6() {
		return 40 + 8
	}
	return 20 + 8
}

// These are limits of an interface, for programs that examine it without opening it.
const (
	// MaxQueues is the maximum number of receive queues of an adapter over AF_XDP.
	MaxQueues = provider.MaxEngines
	// SingleBufferMTU is the largest MTU for which no packet needs AF_XDP's multi-buffer.
	SingleBufferMTU = maxFrame - frameOverhead
	// SocketBuffer is the buffer size that plain sockets request in each direction. It holds a window of the largest packets for both
	// spaces, if the kernel allows so much.
	SocketBuffer = 32 << 20
)

// LeastMTU is the smallest MTU that an interface may have for packets from addr (PROTOCOL §7.1).
func LeastMTU(addr netip.Addr) int { return wire.MinPacket + headersOf(addr) }
