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
func (s *sender) joinsRun() bool { return s.joins && s.runs.May(s.now) }

// inRuns reports whether the packet that was just sent, if it was full, left in a GSO batch by a link that has read it, and whether full
// packets after it do the same.
func (s *sender) inRuns() bool { return s.fullByBulk || s.copies && s.joinsRun() }

// waits is how many bytes of contents are next in a space: the bytes of the message, or of all requests if all have the length of the
// first. A READ is short.
func (s *sender) waits(kind wire.Space) (bytes int) {
	at := s.tx[kind].Next()
	if kind == wire.ResponseSpace {
		return int(s.served.Rest(at))
	}
	q := &s.qp.sq
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
func (s *sender) fills(kind wire.Space, n int) bool {
	at := s.tx[kind].Next()
	if at.Offset() == 0 && (kind == wire.ResponseSpace || int(s.qp.sq.wr(at.Message()).length)+leastHeader > n) {
		return false // the beginning of a message has room for blocks
	}
	return s.waits(kind) >= n
}

// leastHeader is that of a small Write or Send at the least.
var leastHeader = wire.OpLen(wire.OpSend, wire.OpLast)

// sendPieces sends whole segments of the next message of a space, up to its last packet, after one such segment was sent. It returns the
// rest of the budget.
func (s *sender) sendPieces(kind wire.Space, budget int, burst *int) int {
	e, sp := s.environment, &s.tx[kind]
	at, size := sp.Next(), packet.RunSize(int(s.mtu.Packet))
	if at.Offset() == 0 {
		return budget
	}
	w := packet.Wholes{Path: s.identity.path, ECN: s.ecn.Field(), Bulk: s.fullByBulk}
	if w.Bulk {
		w.Path = s.bulkPath
	}
	body, grant := s.body(kind, at, &w)
	length, sent := size-wire.BaseHeaderLen, 0
	record := recovery.Packet{At: e.now, Size: uint16(size), Kind: recovery.Kind(kind), Bulk: w.Bulk}
	for open := s.windowOpen(0, s.peerWindow, e.now); open && len(body) > length && budget > 0 && *burst > 0; sent++ {
		next := s.sent.Next()
		if next%blocksEvery == 0 || s.sent.Full() {
			break
		}
		ask := next&s.cc.Ask == 0
		if open = s.windowOpen(size, s.peerWindow, e.now); !open {
			s.noteFull(size)
			ask = true
		}
		s.sendPiece(&w, record, at, body[:length], ask)
		body, at = body[length:], at+space.Place(length)
		budget -= size
		*burst--
	}
	s.leftInRuns(kind, at, w.Bulk, sent, size)
	if grant != nil {
		grant.CountReads(uint64(sent))
	}
	return budget
}

// body returns the contiguous bytes of a space's next message from the next offset on. If the peer reads them, it also returns the object
// that grants access. It returns no bytes if the memory is gone.
func (s *sender) body(kind wire.Space, at space.Place, w *packet.Wholes) ([]byte, *memory.Grant) {
	w.Fields = wire.BaseFields{Operations: true, Piece: true, ConnID: s.identity.peerID}
	mem := s.access()
	if kind == wire.ResponseSpace {
		w.Copy = true // programs may change it meanwhile
		w.Fields.Message, w.Fields.Flags = at.Message(), wire.FlagSpace
		return s.served.Body(mem, at)
	}
	q := &s.qp.sq
	wr := q.wr(at.Message())
	w.Fields.Message = wr.message
	if wr.flags&FlagInline != 0 {
		return nil, nil
	}
	return mem.Together(q.sgl(at.Message()), at.Offset(), wr.length-at.Offset()), nil
}

// sendPiece sends one whole piece, which lies at a place.
func (s *sender) sendPiece(w *packet.Wholes, p recovery.Packet, at space.Place, piece []byte, ask bool) {
	if !s.out.RoomFor(w, len(piece)) {
		s.flush()
	}
	p.From, p.To = at, at+space.Place(len(piece))
	flags := w.Fields.Flags
	if ask {
		w.Fields.Flags |= wire.FlagAckReq
	}
	w.Fields.Number, w.Fields.Offset = s.sent.Add(p), at.Offset()
	sealed := s.out.Whole(w, piece)
	w.Fields.Flags = flags
	s.tell(sealed)
	s.add()
}

// leftInRuns counts what left in whole pieces, and notes that the space was sent up to a place.
func (s *sender) leftInRuns(kind wire.Space, to space.Place, lane bool, packets, size int) {
	s.tx[kind].Sent(to)
	s.ecn.Left(packets)
	s.counters.bytesOut += uint64(packets * size)
	if lane {
		s.bulkTo[kind] = to
		s.stats.BulkPacketsOut += uint64(packets)
		s.stats.BulkBytesOut += uint64(packets * size)
	}
}
