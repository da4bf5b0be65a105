package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
)

// The names of package link that upper layers use.
type (
	// Link is the engine's only view of the network. It is called by the engine's owner only, in batches.
	Link = link.Link
	// Pressured is a Link that knows how full its receive memory is.
	Pressured = link.Pressured
	// Backlogged is a Link whose device can be too busy for what Transmit took. Its owner calls it.
	Backlogged = link.Backlogged
	// Limited is a Link that knows the MTU which the kernel's route of a path sets.
	Limited = link.Limited
	// Copier is a Link that has read all of a packet when Transmit returns.
	Copier = link.Copier
	// Path names a route to a peer inside one link. Zero is never a path.
	Path = link.Path
	// Frag is one contiguous piece of a packet.
	Frag = link.Frag
	// RxPacket is a packet that arrived.
	RxPacket = link.RxPacket
	// TxPacket is a packet to send.
	TxPacket = link.TxPacket
)

// How packets lie in frames; package link says what each one means.
const (
	MaxFrags  = link.MaxFrags
	Headroom  = link.Headroom
	FrameSize = link.FrameSize
	// Lent is the ID of memory that is no link's.
	Lent = link.Lent
	// TxBatch is how many packets come to Transmit together at the most.
	TxBatch = packet.TxBatch
)
