package link

import (
	"math"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// MaxFrags is the largest number of fragments of a packet: CONFIG_MAX_SKB_FRAGS+1 in the kernel's AF_XDP copy path.
const MaxFrags = 18

// Headroom is the offset of the ND packet in the first frame of a transmit packet. The link writes its Ethernet, IP and UDP headers
// in front of it (at most 62 bytes, with IPv6). If a packet without blocks begins with a WRITE, the payload of the WRITE starts at
// byte 128, a cache line.
const Headroom = 128 - wire.BaseHeaderLen - 16

// FrameSize is the capacity of each transmit frame in bytes.
const FrameSize = 4096

// Frag is one contiguous part of a packet. ID is the link's name for its memory.
type Frag struct {
	Data []byte
	ID   uint64
}

// Lent is the ID of memory that belongs to no link. Packets of a Copier, and packets on the bulk path, may have fragments with this
// ID. The link does not return them to a pool.
const Lent = math.MaxUint64

// Path names a route to a peer inside one link: addresses, ports and link-layer headers. Zero is not a path.
type Path uint32

// Number names one of an adapter's links, and so its engine: the index plus one. Zero is no link.
type Number uint8

// RxPacket is a received packet: the ND packet (PROTOCOL §3) in fragments, and its source. The engine owns the frames until it
// passes them to Link.Recycle.
type RxPacket struct {
	From, To wire.Endpoint
	MAC      [6]byte // link-layer source address, which Link.Reply needs
	CE       bool
	Merged   bool // cut from packets that were merged on the way (GRO)
	Bulk     bool // received on the bulk path (PROTOCOL §11.1)
	N        int
	Len      int        // total bytes of all fragments
	Arrived  clock.Time // when it reached this machine, before any wait in a ring; zero if unknown
	Frags    [MaxFrags]Frag

	// Fields that engines set.
	Origin Number // the link that received it, if another engine handed it on; otherwise zero
	At     int    // offset of the contents, behind the blocks; valid after ReadBlocks

	// Set if the packet did not come through the link (PROTOCOL §7.8).
	Handed   bool // another process received it
	Unproven bool // and may have forged its source
}

// TxPacket is a packet to send. Frags[0].Data begins Headroom bytes into its frame, and the link may write in front of it. All
// further fragments are sent unchanged.
type TxPacket struct {
	Path  Path
	ECN   wire.ECN // whether routers may mark it
	Joins bool     // it may leave in one GSO batch with preceding packets to the same peer
	Bulk  bool     // it leaves by the bulk path, and Path is a bulk path
	N     int
	Len   int // total bytes of all fragments
	// Segment is the segment size of the GSO batch that a long packet fills (PROTOCOL §11.2); zero for other packets.
	Segment int
	Frags   [MaxFrags]Frag
}

// Link is the engine's only access to the network. Only the engine's owner calls it, in batches.
type Link interface {
	// Receive fills pkts with received packets and returns their number.
	Receive(pkts []RxPacket) int
	// Ready reports whether Receive would return packets. It is cheap, because pollers call it in a loop.
	Ready() bool
	// Recycle takes back receive frames by ID.
	Recycle(ids []uint64)
	// Frames fills dst with free transmit frames and returns their number. Data of each frame has FrameSize bytes. If it returns 0,
	// the engine stops building packets: this is the back-pressure of the transmit ring.
	Frames(dst []Frag) int
	// Transmit sends packets whose frames came from Frames. It takes all of them. A packet that the device refuses is lost like a
	// packet in the network, and the link counts it.
	Transmit(pkts []TxPacket)
	// Connect makes a path from a local address and UDP port to a resolved peer. The error says what is missing.
	Connect(local, remote wire.Endpoint) (Path, error)
	// Reply makes a path to the address that sent p. Argument from is our UDP port, and argument to the peer's. If Reply fails, the link
	// counts the reason.
	Reply(p *RxPacket, from, to uint16) (Path, bool)
	// Hop returns the link-layer address of a path's next hop. Reply to this address, on any link of the adapter, makes an equal
	// path. It may fail, because it may need a descriptor.
	Hop(p Path) (mac [6]byte)
	// Forget frees a path. The engine must not transmit to it afterwards.
	Forget(p Path)
	// MaxPacket returns the size in bytes of the largest ND packet that this link sends and receives.
	MaxPacket() int
}

// Copier is a Link that has copied all of a packet when Transmit returns, so that its fragments may be Lent.
type Copier interface{ Copies() }

// Copies reports whether a link is a Copier.
func Copies(l Link) bool {
	_, ok := l.(Copier)
	return ok
}

// Laned is a Link that may have a bulk path (PROTOCOL §11.1). Packets of both paths use the same Receive, Recycle, Frames and
// Transmit.
type Laned interface {
	// BulkPath makes a bulk path to an address and port of a peer. It fails while BulkOpen is false.
	BulkPath(to wire.Endpoint) (Path, bool)
	// BulkOpen reports whether the link can send GSO batches by the bulk path.
	BulkOpen() bool
	// ForgetBulk frees a bulk path. The engine must not transmit to it afterwards.
	ForgetBulk(p Path)
}

// BulkOpen reports whether a link has a bulk path that can send GSO batches.
func BulkOpen(l Link) bool {
	lane, ok := l.(Laned)
	return ok && lane.BulkOpen()
}
