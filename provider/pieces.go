package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends the middle of long messages in GSO batches. The packets of a batch differ only in their numbers and offsets, so all other
// fields are determined once. A segment that is not whole, or that may carry blocks, is built like any other packet.

// joinsRun reports whether packets with contents leave in runs by the ND port (PROTOCOL §11).
func (t *traffic) joinsRun() bool { return t.conn.joins && t.sent.runs.May(t.engine.now) }

// inRuns reports whether the packet that was just sent, if it was full, left in a GSO batch by a link that has read it, and whether full
// packets after it do the same.
func (t *traffic) inRuns() bool { return !t.long && (t.fullByBulk || t.engine.copies && t.joinsRun()) }

// waits is how many bytes of contents are next in a space: the bytes of the message, or of all requests if all have the length of the
// first. A READ is short.
func (t *traffic) waits(kind wire.Space) (bytes int) {
	at := t.sent.spaces[kind].Next()
	if kind == wire.ResponseSpace {
		return int(t.served.Rest(at))
	}
	q := &t.conn.qp.sq
	wr := q.wr(at.Message())
	switch {
	case at.Offset() > 0:
		return int(wr.length - at.Offset())
	case wr.kind == KindWrite || wr.kind == KindSend:
		return int(q.posted.Load()-at.Message()) * (int(wr.length) + leastHeader)
	}
	return 0
}

// fills reports whether the next contents of a space fill n bytes of a packet: a whole segment of a started message, or small requests.
func (t *traffic) fills(kind wire.Space, n int) bool {
	at := t.sent.spaces[kind].Next()
	if at.Offset() == 0 && (kind == wire.ResponseSpace || int(t.conn.qp.sq.wr(at.Message()).length)+leastHeader > n) {
		return false // the beginning of a message has room for blocks
	}
	return t.waits(kind) >= n
}

// leastHeader is that of a small Write or Send at the least.
var leastHeader = wire.OpLen(wire.OpSend, wire.OpLast)

// sendPieces sends whole segments of the next message of a space, up to its last packet, after one such segment was sent. It returns the
// rest of the budget.
func (t *traffic) sendPieces(kind wire.Space, budget int, burst *int) int {
	e, sp := t.engine, &t.sent.spaces[kind]
	at, size := sp.Next(), packet.RunSize(int(t.conn.mtu.Packet), tagOf(t.conn))
	if at.Offset() == 0 {
		return budget
	}
	w := packet.Wholes{Path: t.conn.identity.path, ECN: t.conn.ecn.Field(), Bulk: t.fullByBulk}
	path := recovery.PathND
	if w.Bulk {
		w.Path, path = t.sent.bulkPath, recovery.PathBulk
	}
	if tagOf(t.conn) != 0 {
		w.Keys = &t.conn.end.keys.Out
	}
	body, grant := t.body(kind, at, &w)
	length, sent := size-wire.BaseHeaderLen-tagOf(t.conn), 0
	record := recovery.Packet{At: e.now, Size: uint16(size), Kind: recovery.Kind(kind), Path: path}
	for open := t.sent.windowOpen(0); open && len(body) > length && budget > 0 && *burst > 0; sent++ {
		next := t.sent.packets.Next()
		if next%blocksEvery == 0 || t.sent.packets.Full() || w.Keys != nil && t.mustLookAtKeys() {
			break
		}
		ask := next&t.sent.cc.Ask == 0
		if open = t.sent.windowOpen(size); !open {
			t.sent.noteFull(size)
			ask = true
		}
		t.sendPiece(&w, record, at, body[:length], ask)
		body, at = body[length:], at+space.Place(length)
		budget -= size
		*burst--
	}
	t.leftInRuns(kind, at, w.Bulk, sent, size)
	if grant != nil {
		grant.CountReads(uint64(sent))
	}
	return budget
}

// body returns the contiguous bytes of a space's next message from the next offset on. If the peer reads them, it also returns the object
// that grants access. It returns no bytes if the memory is gone.
func (t *traffic) body(kind wire.Space, at space.Place, w *packet.Wholes) ([]byte, *memory.Grant) {
	w.Fields = wire.BaseFields{Operations: true, Piece: true, ConnID: t.conn.identity.peerID}
	mem := t.access()
	if kind == wire.ResponseSpace {
		w.Copy = true // programs may change it meanwhile
		w.Fields.Message, w.Fields.Flags = at.Message(), wire.FlagSpace
		return t.served.Body(mem, at)
	}
	q := &t.conn.qp.sq
	wr := q.wr(at.Message())
	w.Fields.Message = wr.message
	if wr.flags&FlagInline != 0 {
		return nil, nil
	}
	return mem.Together(q.sgl(at.Message()), at.Offset(), wr.length-at.Offset()), nil
}

// sendPiece sends one whole piece, which lies at a place.
func (t *traffic) sendPiece(w *packet.Wholes, p recovery.Packet, at space.Place, piece []byte, ask bool) {
	if !t.engine.out.RoomFor(w, len(piece)) {
		t.engine.flush()
	}
	p.From, p.To = at, at+space.Place(len(piece))
	flags := w.Fields.Flags
	if ask {
		w.Fields.Flags |= wire.FlagAckReq
	}
	w.Fields.Number, w.Fields.Offset = t.sent.packets.Add(p), at.Offset()
	sealed := t.engine.out.Whole(w, piece)
	w.Fields.Flags = flags
	t.tell(sealed)
	t.engine.add()
}

// leftInRuns counts what left in whole pieces, and notes that the space was sent up to a place.
func (t *traffic) leftInRuns(kind wire.Space, to space.Place, lane bool, packets, size int) {
	t.sent.spaces[kind].Sent(to)
	t.conn.ecn.Left(packets)
	t.conn.counters.bytesOut += uint64(packets * size)
	if lane {
		t.sent.bulkTo[kind] = to
		t.engine.stats.BulkPacketsOut += uint64(packets)
		t.engine.stats.BulkBytesOut += uint64(packets * size)
		t.sent.long.Left(packets * size)
	}
}
