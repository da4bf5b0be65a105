package sim

import (
	"github.com/ndxdp/ndxdp/wire"
)

// flowKey identifies the packets that one connection sends, by the sender and the receiver's connection id, because ports may
// change.
type flowKey struct {
	host *Host
	to   uint64
}

type flow struct {
	number uint32                // newest packet number
	sent   [wire.NumSpaces]place // stream offset behind everything sent

	generation uint32 // newest key generation of which a packet was not lost
}

// place is a stream offset in a space.
type place struct{ message, offset uint32 }

// before reports whether p comes before q.
func (p place) before(q place) bool {
	if d := int32(p.message - q.message); d != 0 {
		return d < 0
	}
	return p.offset < q.offset
}

// after returns the stream offset n bytes behind p, or the beginning of the next message if the message ends there.
func (p place) after(n int, last bool) place {
	if last {
		return place{message: p.message + 1}
	}
	return place{p.message, p.offset + uint32(n)}
}

// watchSent checks that each transmission of a connection has a new, larger packet number, and that no contents are skipped
// (PROTOCOL §3.1). If a sealed packet had the number of another one, both would have been sealed with one nonce. A REQ that arrives late
// may begin another handshake with the same peer id, whose keys of generation 0 are other keys.
func (n *Network) watchSent(from *Host, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.Control() && (!h.Secure() || h.Generation() == 0) {
		return
	}
	key := flowKey{from, h.ConnID()}
	f := n.flows[key]
	if f == nil {
		f = &flow{number: h.Number() - 1}
		n.flows[key] = f
	}
	if int32(h.Number()-f.number) <= 0 {
		n.Fail("%s sends packet number %d after %d", from.name, h.Number(), f.number)
	}
	f.number = h.Number()
	if h.Secure() {
		return // its contents are not to be seen
	}
	sent := &f.sent[h.Space()]
	at := place{wire.ExpandMessage(h.Message(), sent.message), h.Offset()}
	if sent.before(at) {
		n.Fail("%s skips in the %s space from %v to %v", from.name, h.Space(), *sent, at)
	}
	if end := endOf(packet, h, at); sent.before(end) {
		*sent = end
	}
}

// endOf returns the stream offset behind the contents of a packet that begin at a given offset.
func endOf(packet []byte, h wire.BaseHeader, at place) place {
	from, _ := wire.ContentOffset(packet)
	inside := packet[from:]
	if h.Piece() {
		return at.after(len(inside), h.Flags()&wire.FlagEnd != 0)
	}
	for used := 0; used < len(inside); used = (used + wire.OpAlign - 1) &^ (wire.OpAlign - 1) {
		var op wire.Op
		n, d := wire.ParseOp(inside[used:], h.Space(), &op)
		if d != wire.DropNone {
			return at
		}
		at = at.after(int(op.Length), op.Flags&wire.OpLast != 0)
		used += n + int(op.Length)
	}
	return at
}
