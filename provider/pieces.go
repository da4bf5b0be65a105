package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends the middle of long messages in runs. The packets differ in their numbers and in where their piece lies, and in nothing else, so that what they are is
// decided once for all of them; what is not a whole piece, or may carry blocks, is built like any other packet.

// joinsRun says that packets with contents leave in runs by the ND port (PROTOCOL §11).
func (s *sender) joinsRun() bool { return s.joins && s.runs.May(s.now) }

// inRuns says that the packet that was just launched, if it was full, left in a run by a link that has read it, and that full ones behind it go the same way.
func (s *sender) inRuns() bool { return s.fullByBulk || s.copies && s.joinsRun() }

// waits is how many bytes of contents are next in a space: those of the message, or of all requests if they are as long as the first. A READ is short.
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

// fills says that what is next in a space fills n bytes of a packet: a whole piece of a message that was begun, or small requests.
func (s *sender) fills(kind wire.Space, n int) bool {
	at := s.tx[kind].Next()
	if at.Offset() == 0 && (kind == wire.ResponseSpace || int(s.qp.sq.wr(at.Message()).length)+leastHeader > n) {
		return false // the beginning of a message has room for blocks
	}
	return s.waits(kind) >= n
}

// leastHeader is that of a small Write or Send at the least.
var leastHeader = wire.OpLen(wire.OpSend, wire.OpLast)

// sendPieces sends whole pieces of the message that is next in a space, up to its last packet, behind one that was just launched so, and returns what is left of the budget.
func (s *sender) sendPieces(kind wire.Space, budget int, burst *int) int {
	e, sp := s.environment, &s.tx[kind]
	at, size := sp.Next(), packet.RunSize(int(s.mtu.Packet))
	if at.Offset() == 0 {
		return budget
	}
	w := packet.Wholes{Path: s.path, ECN: s.ecn.Field(), Bulk: s.fullByBulk}
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

// body is what lies together of the message that is next in a space, from its next place on, and what grants it if the peer reads it. It is empty when the memory is gone.
func (s *sender) body(kind wire.Space, at space.Place, w *packet.Wholes) ([]byte, *memory.Grant) {
	w.Fields = wire.BaseFields{Operations: true, Piece: true, ConnID: s.peerID}
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
	s.bytesOut += uint64(packets * size)
	if lane {
		s.bulkTo[kind] = to
		s.stats.BulkPacketsOut += uint64(packets)
		s.stats.BulkBytesOut += uint64(packets * size)
	}
}
