package provider

import "github.com/ndxdp/ndxdp/wire"

// sequenced says whether a packet carries operations.
func sequenced(b []byte) bool {
	return len(b) >= wire.BaseHeaderLen && wire.BaseHeader(b).OpCount() != 0
}

// contents is what a packet carries behind its blocks.
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

// opcode is that of a packet's message or of its first operation; blocksAlone when it has neither.
func opcode(b []byte) wire.Opcode {
	if inside := contents(b); len(inside) > 0 {
		return wire.Opcode(inside[0])
	}
	return blocksAlone
}
