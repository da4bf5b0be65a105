package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/answers"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// This file places the bytes of packets that arrive before one sent earlier (Config.ImmediatePlacement, PROTOCOL §9.1). All else that
// a packet does waits for its turn: completions, READs, invalidations, and errors. A packet is placed when every operation in it
// passes its checks now; otherwise it waits like without the option, and fails, or does not, when its turn comes.

// placer places what is ahead of its turn: it knows where the bytes of each operation belong, and nothing of what else the operation does.
type placer struct {
	*access.Memory
	qp    *QP
	reads *answers.Asked // ours; nil when they were given up
	next  uint32         // number of the SEND being received
}

// place places the bytes of a packet behind a gap in a space. It reports false when they have to wait: nothing was touched then, unless the process
// lost the memory.
func (a placer) place(w *packet.Walk, rs *recvSpace, p *RxPacket, h wire.BaseHeader) bool {
	return a.walk(w, rs, p, h, false) && a.walk(w, rs, p, h, true)
}

// walk checks a packet's operations, or carries out what can be. It reports whether it got to the end.
func (a placer) walk(w *packet.Walk, rs *recvSpace, p *RxPacket, h wire.BaseHeader, really bool) bool {
	for w.Start(p, h, rs.place(h)); w.More(); {
		if w.Step() != wire.DropNone {
			return false
		}
		if w.Op.Opcode == wire.OpMore && !rs.continuesAhead(h.Space(), &w.Op) {
			return false
		}
		if really && !a.placeOp(&w.Op, w) || !really && !a.check(&w.Op, w) {
			return false
		}
	}
	return true
}

// continuesAhead completes an operation that continues a message, if the first segment of the message is known. That is so for the message
// being received, and for answers to this side's READs.
func (rs *recvSpace) continuesAhead(kind wire.Space, op *wire.Op) bool {
	if kind == wire.ResponseSpace {
		op.Opcode = wire.OpReadResp
		return true
	}
	return rs.next.Offset() > 0 && op.Message == rs.next.Message() && rs.continues(op)
}

// check checks an operation as it would be when it is carried out.
func (a placer) check(op *wire.Op, w *packet.Walk) bool {
	switch op.Opcode {
	case wire.OpReadReq:
		return true
	case wire.OpTerm:
		return false
	case wire.OpWrite:
		if op.Length > 0 {
			if dst, _ := a.Written(Token(op.Token), op.Address, uint32(op.Length)); dst == nil {
				return false
			}
		}
	default:
		sgl, ok := a.sink(op)
		if !ok || !a.Scatter(sgl, op.Offset, uint32(op.Length), false, nil) {
			return false
		}
	}
	w.Skip(int(op.Length))
	return true
}

// sink is where the bytes of a SEND or READ_RESP belong: the receive of that SEND number, or the sink of that READ.
func (a placer) sink(op *wire.Op) (sgl []SGE, ok bool) {
	qp := a.qp
	if qp == nil {
		return nil, false
	}
	if op.Opcode == wire.OpReadResp {
		if a.reads == nil {
			return nil, false
		}
		seq, ok := a.reads.Find(op.Message)
		if !ok {
			return nil, false
		}
		return qp.sq.sgl(seq), op.Offset+uint32(op.Length) <= qp.sq.wr(seq).length
	}
	ahead := op.Number - a.next
	if qp.State() != QPReady || ahead >= qp.rq.waiting() {
		return nil, false
	}
	seq := qp.rq.head.Load() + ahead
	return qp.rq.sgl(seq), op.Total <= qp.rq.wr(seq).capacity
}

// placeOp places an operation's bytes. All checks were passed in the same turn, so it fails only where the process lost the memory.
func (a placer) placeOp(op *wire.Op, w *packet.Walk) bool {
	switch op.Opcode {
	case wire.OpWrite:
		if op.Length > 0 {
			dst, g := a.Written(Token(op.Token), op.Address, uint32(op.Length))
			g.CountWrites(1)
			return access.Place(w, dst, g, false)
		}
	case wire.OpReadReq:
	default:
		sgl, _ := a.sink(op)
		return a.Scatter(sgl, op.Offset, uint32(op.Length), false, w)
	}
	return true
}
