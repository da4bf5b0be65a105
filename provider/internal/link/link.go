package link

import (
	"math"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// MaxFrags is the most pieces one packet may have: CONFIG_MAX_SKB_FRAGS+1 in the kernel's AF_XDP copy path.
const MaxFrags = 18

// Headroom is where the ND packet starts in the first frame of a transmit packet. The link writes its link, network and
// transport headers in front of it (at most 62 bytes: Ethernet, IPv6, UDP), and the
// payload of a WRITE that is first in a packet without blocks lands on byte 128, a cache line.
const Headroom = 128 - wire.BaseHeaderLen - 16

// FrameSize is the capacity of every frame a link hands out for transmission.
const FrameSize = 4096

// Frag is one contiguous piece of a packet. ID is the link's own name for the memory.
type Frag struct {
	Data []byte
	ID   uint64
}

// Lent is the ID of memory that belongs to no link. Packets of a Copier, and packets on the bulk path, may have such pieces. The link gives
// nothing back for them.
const Lent = math.MaxUint64

// Path names a route to a peer inside one link: addresses, ports and link-layer headers. Zero is never a path.
type Path uint32

// Number is one of an adapter's links, and so its engine: the index, plus one. Zero is none.
type Number uint8

// RxPacket is a packet that arrived: the ND packet (PROTOCOL §3) in pieces, and where it came from. The engine owns the
// frames until it gives them to Link.Recycle.
type RxPacket struct {
	From, To wire.Endpoint
	MAC      [6]byte // link-layer source; what Link.Reply needs to answer
	CE       bool
	Merged   bool // it was cut from packets that were merged on the way
	Bulk     bool // it came by the bulk lane (PROTOCOL §11.1)
	N        int
	Len      int        // bytes over all pieces
	Arrived  clock.Time // when it came to this machine, however long it waited there; zero when nobody says
	Frags    [MaxFrags]Frag

	// The engines'.
	Origin Number // whose link it came from, when it was handed on; else none
	At     int    // where what it carries begins, behind the blocks; once they were looked at

	// Of what came beside the link (PROTOCOL §7.8).
	Handed   bool // another process received it
	Unproven bool // and may have made up where it came from
}

// TxPacket is a packet to send. Frags[0].Data begins Headroom bytes into its frame and the link may write in front of
// it; the others are sent as they are.
type TxPacket struct {
	Path  Path
	ECN   wire.ECN // whether routers may mark it
	Joins bool     // it may leave in a GSO batch with the packets before it to the same peer
	Bulk  bool     // it leaves by the bulk lane, and Path is one of that lane
	N     int
	Len   int // bytes of ND packet over all pieces
	Frags [MaxFrags]Frag
}

// Link is the engine's only view of the network. It is called by the engine's owner only, in batches.
type Link interface {
	// Receive fills pkts with packets that arrived and returns how many.
	Receive(pkts []RxPacket) int
	// Ready says whether Receive would find something. It costs next to nothing: pollers ask it in a loop.
	Ready() bool
	// Recycle takes back receive frames by ID.
	Recycle(ids []uint64)
	// Frames fills dst with free transmit frames (Data has FrameSize bytes) and returns how many there were. When it
	// returns none the engine stops building packets: that is the back-pressure of the transmit ring.
	Frames(dst []Frag) int
	// Transmit sends packets whose frames came from Frames. It takes all of them; what the device refuses is lost like
	// any packet on a network, and counted by the link.
	Transmit(pkts []TxPacket)
	// Connect makes a path from a local address and UDP port to those of a resolved peer. The error says what is missing.
	Connect(local, remote wire.Endpoint) (Path, error)
	// Reply makes a path that answers p, from our UDP port from to the port to of the address that p came from. The link counts why there is none.
	Reply(p *RxPacket, from, to uint16) (Path, bool)
	// Hop returns the link-layer address that a path leads to. A Reply to it, of any link of the adapter, makes the
	// same path, or none: it may take a descriptor.
	Hop(p Path) (mac [6]byte)
	// Forget frees a path. No packet for it comes to Transmit any more.
	Forget(p Path)
	// MaxPacket is the largest ND packet, in bytes, that this link sends and receives.
	MaxPacket() int
}

// Copier is a Link that has read all of a packet when Transmit returns, so that its pieces may be Lent.
type Copier interface{ Copies() }

// Copies says whether a link is a Copier that copies.
func Copies(l Link) bool {
	_, ok := l.(Copier)
	return ok
}

// Laned is a Link that may have a bulk lane (PROTOCOL §11.1). Packets of both lanes come by Receive, in frames that go back by Recycle, and leave by
// Transmit, in frames from Frames.
type Laned interface {
	// BulkPath makes a path by the lane to an address and port of a peer. It fails, with zero, while the lane cannot send runs.
	BulkPath(to wire.Endpoint) (Path, bool)
	// BulkOpen says whether it can.
	BulkOpen() bool
	// ForgetBulk frees a path. No packet for it comes to Transmit any more.
	ForgetBulk(p Path)
}

// BulkOpen says that a link has a bulk lane that carries runs.
func BulkOpen(l Link) bool {
	lane, ok := l.(Laned)
	return ok && lane.BulkOpen()
}
