package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// sequenced reports whether a packet carries operations or a segment.
func sequenced(b []byte) bool {
	return len(b) >= wire.BaseHeaderLen && !wire.BaseHeader(b).Control()
}

// contents returns the part of a packet behind its blocks.
func contents(b []byte) []byte {
	if len(b) < wire.BaseHeaderLen {
		return nil
	}
	at, d := wire.ContentOffset(b)
	if d != wire.DropNone {
		return nil
	}
	return b[at:]
}

// blocksAlone stands for the opcode of a packet of blocks alone.
const blocksAlone = wire.Opcode(0)

// opcode returns the opcode of a packet's control message or of its first operation. It returns MORE for a packet of type piece,
// and blocksAlone for a packet of blocks alone.
func opcode(b []byte) wire.Opcode {
	if sequenced(b) && wire.BaseHeader(b).Piece() {
		return wire.OpMore
	}
	if inside := contents(b); len(inside) > 0 {
		return wire.Opcode(inside[0])
	}
	return blocksAlone
}

// expects returns the offset in each space that a connection executes next.
func (c *conn) expects() (next [wire.NumSpaces]space.Place) {
	for sp := range c.traffic.received.spaces {
		next[sp] = c.traffic.received.spaces[sp].next
	}
	return next
}

// numbers returns message numbers of a space, also for an idle connection: the oldest unacknowledged, the next to send, the next to
// receive. Every request in these tests is a message.
func (c *conn) numbers(sp wire.Space) (una, next, expected uint32) {
	if next = [...]uint32{c.requestNumbers.nextMessage, c.idle.served}[sp]; c.traffic == nil {
		return next, next, c.idle.rx[sp]
	}
	if una, next = c.traffic.sent.spaces[sp].Una().Message(), c.traffic.sent.spaces[sp].Next().Message(); sp == wire.RequestSpace {
		una, next = c.requestNumbers.nextMessage-(next-una), c.requestNumbers.nextMessage
	}
	return una, next, c.traffic.received.spaces[sp].next.Message()
}
