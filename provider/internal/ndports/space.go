package ndports

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Space is who has which ND port of an adapter's address on this machine (PROTOCOL §7.8). The owner of the leading engine calls it; it must
// not block.
type Space interface {
	// Claim takes a port for this adapter alone, as often as it is asked to. It fails with SharingViolation when another one has it, and with InsufficientResources
	// when this process cannot take any.
	Claim(port uint16) outcome.Outcome
	// Release undoes one Claim.
	Release(port uint16)
	// Mark tells other adapters that this one chooses automatic ports from the Block that begins at first, as often as it is asked to. It reports false when another one has said
	// so, or when this process cannot.
	Mark(first uint16) bool
	// Unmark undoes one Mark that reported true.
	Unmark(first uint16)
	// HandOver gives a REQ to the adapter that has the ND port it asks for.
	HandOver(p *link.RxPacket, port uint16) HandOver
}

// HandOver is what became of a REQ for an ND port of others.
type HandOver uint8

// Results of Space.HandOver.
const (
	Nobody  HandOver = iota // no adapter has the port
	Done                    // it was given to the owner of the port
	Dropped                 // the owner cannot take it now, or there are too many
	Refused                 // the owner accepts none
)

// Alone is the Space of an adapter that has its address to itself.
type Alone struct{}

// Claim implements Space.
func (Alone) Claim(uint16) outcome.Outcome { return outcome.Success }

// Release implements Space.
func (Alone) Release(uint16) {}

// Mark implements Space.
func (Alone) Mark(uint16) bool { return true }

// Unmark implements Space.
func (Alone) Unmark(uint16) {}

// HandOver implements Space.
func (Alone) HandOver(*link.RxPacket, uint16) HandOver { return Nobody }
