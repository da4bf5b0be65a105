package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// sequenced reports whether a packet carries operations, or a piece of one.
func sequenced(b []byte) bool {
	return len(b) >= wire.BaseHeaderLen && !wire.BaseHeader(b).Control()
}

// contents returns what a packet carries behind its blocks.
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

// opcode is that of a packet's message or of its first operation; MORE when the packet is a piece, and blocksAlone when it has nothing.
func opcode(b []byte) wire.Opcode {
	if sequenced(b) && wire.BaseHeader(b).Piece() {
		return wire.OpMore
	}
	if inside := contents(b); len(inside) > 0 {
		return wire.Opcode(inside[0])
	}
	return blocksAlone
}

// expects is what a connection takes next in each space.
func (c *conn) expects() (next [wire.NumSpaces]space.Place) {
	for sp := range c.rx {
		next[sp] = c.rx[sp].next
	}
	return next
}

// numbers are the messages of a space, also of an idle connection: the oldest not acknowledged, the next to send, the next to
// receive. No request here is local: each is a message.
func (c *conn) numbers(sp wire.Space) (una, next, expected uint32) {
	if next = [...]uint32{c.nextMessage, c.idle.served}[sp]; c.traffic == nil {
		return next, next, c.idle.rx[sp]
	}
	if una, next = c.tx[sp].Una().Message(), c.tx[sp].Next().Message(); sp == wire.RequestSpace {
		una, next = c.nextMessage-(next-una), c.nextMessage
	}
	return una, next, c.rx[sp].next.Message()
}
