package ndports

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// PortSpace arbitrates the ND ports of an address among the adapters of this machine (PROTOCOL §7.8). The owner of the leading engine
// calls it. It must not block.
type PortSpace interface {
	// Claim takes a port for this adapter alone. An adapter may claim a port several times. It fails with SharingViolation if
	// another adapter has the port, and with InsufficientResources if this process cannot claim any port.
	Claim(port uint16) outcome.Outcome
	// Release undoes one Claim.
	Release(port uint16)
	// Mark tells other adapters that this one chooses automatic ports from the Block that begins at first. An adapter may mark a
	// block several times. It returns false if another adapter has marked the block, or if this process cannot mark any.
	Mark(first uint16) bool
	// Unmark undoes one successful Mark.
	Unmark(first uint16)
	// HandOver passes a REQ to the adapter that has the requested ND port.
	HandOver(p *link.RxPacket, port uint16) HandOver
}

// HandOver is the result of passing a REQ to another adapter.
type HandOver uint8

// Results of PortSpace.HandOver.
const (
	Nobody  HandOver = iota // no adapter has the port
	Done                    // the owner of the port has the REQ
	Dropped                 // the owner is busy, or the limit is reached
	Refused                 // the owner does not accept REQs
)

// Alone is the PortSpace of an adapter that shares its address with no other.
type Alone struct{}

// Claim implements PortSpace.
func (Alone) Claim(uint16) outcome.Outcome { return outcome.Success }

// Release implements PortSpace.
func (Alone) Release(uint16) {}

// Mark implements PortSpace.
func (Alone) Mark(uint16) bool { return true }

// Unmark implements PortSpace.
func (Alone) Unmark(uint16) {}

// HandOver implements PortSpace.
func (Alone) HandOver(*link.RxPacket, uint16) HandOver { return Nobody }
