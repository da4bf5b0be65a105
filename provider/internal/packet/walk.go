package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Walk iterates over the operations of a packet:
//
//	for w.Start(p, h, at); w.More(); {
//		if d := w.Step(); d != wire.DropNone {
//			return d
//		}
//		w.Skip(int(w.Op.Length)) // or place it
//	}
type Walk struct {
	Reader               // at the payload of the current operation
	Op       wire.Op     // the current operation
	From, To space.Place // stream offsets where the current operation begins and ends
	space    wire.Space
	end      bool // flag END of a packet with a whole segment: the segment ends its message
	piece    bool // the packet is one whole segment without an operation header
	begun    bool
	open     bool // the previous operation continues in another packet
}

// Start begins with a packet whose contents begin at stream offset at.
func (w *Walk) Start(p *link.RxPacket, h wire.BaseHeader, at space.Place) {
	w.Reset(p)
	w.To, w.space, w.piece, w.end = at, h.Space(), h.Piece(), h.Flags()&wire.FlagEnd != 0
	w.begun, w.open = false, false
}

// More reports whether to call Step. It is true for an empty packet, because Step rejects it.
func (w *Walk) More() bool { return w.left > 0 || !w.begun }

// Step reads the next operation and its stream offset. If the operation continues a message (MORE), only its offset and length are
// known.
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
