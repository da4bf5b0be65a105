package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Walk goes through the operations of a packet:
//
//	for w.Start(p, h, at); w.More(); {
//		if d := w.Step(); d != wire.DropNone {
//			return d
//		}
//		w.Skip(int(w.Op.Length)) // or place it
//	}
type Walk struct {
	Reader               // at the payload of the operation at hand
	Op       wire.Op     // the operation at hand
	From, To space.Place // of it, and of what is behind it
	space    wire.Space
	end      bool // the packet says that its only piece ends its message
	piece    bool // the packet is one piece without an operation header
	begun    bool
	open     bool // the operation before goes on in another packet
}

// Start begins with a packet whose contents begin at a place.
func (w *Walk) Start(p *link.RxPacket, h wire.BaseHeader, at space.Place) {
	w.Reset(p)
	w.To, w.space, w.piece, w.end = at, h.Space(), h.Piece(), h.Flags()&wire.FlagEnd != 0
	w.begun, w.open = false, false
}

// More says that Step is to be called: something is left, or the packet was empty, which Step refuses.
func (w *Walk) More() bool { return w.left > 0 || !w.begun }

// Step reads the next operation, with its place. Of one that goes on with a message that is not in the packet, only the place is known.
func (w *Walk) Step() wire.DropReason {
	op := &w.Op
	w.From, w.begun = w.To, true
	if w.open {
		return wire.DropTrailing
	}
	if w.left == 0 {
		return wire.DropLength
	}
	if w.piece {
		*op = wire.Op{Opcode: wire.OpMore, Length: uint16(w.left)}
		if w.end {
			op.Flags = wire.OpLast
		}
	} else if d := w.operation(w.space, op); d != wire.DropNone {
		return d
	}
	op.Message, op.Offset = w.From.Message(), w.From.Offset()
	if more := op.Opcode == wire.OpMore; more != (op.Offset > 0) && op.Opcode != wire.OpTerm {
		return wire.DropLength
	}
	last := op.Flags&wire.OpLast != 0
	if op.Offset+uint32(op.Length) < op.Offset {
		return wire.DropLength
	}
	w.To, w.open = w.From.After(uint32(op.Length), last), !last
	return wire.DropNone
}
