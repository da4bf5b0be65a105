package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// This file places the bytes of packets that arrive before one sent earlier (Config.ImmediatePlacement, PROTOCOL §9.1). All else that
// a packet does waits for its turn: completions, READs, invalidations, and errors. A packet is placed when every operation in it
// passes its checks now; otherwise it waits like without the option, and fails, or does not, when its turn comes.

// placeAhead places the bytes of a packet behind a gap. It reports false when they have to wait; nothing was touched then.
func (c *conn) placeAhead(p *RxPacket, h wire.BaseHeader) bool {
	return c.walkAhead(p, h, c.checkAhead) && c.walkAhead(p, h, c.placeOp)
}

// walkAhead goes through a packet's operations as long as each says so. It reports whether it got to the end.
func (c *conn) walkAhead(p *RxPacket, h wire.BaseHeader, each func(op *wire.Op, r *packet.Walk) bool) bool {
	rs, w := &c.rx[h.Space()], &c.engine.walk
	for w.Start(p, h, rs.place(h)); w.More(); {
		if w.Step() != wire.DropNone {
			return false
		}
		if w.Op.Opcode == wire.OpMore && !rs.continuesAhead(h.Space(), &w.Op) || !each(&w.Op, w) {
			return false
		}
	}
	return true
}

// continuesAhead completes an operation that goes on with a message, if its first piece is known: that of the message that is being
// received, or one of the answers to our READs, which we know.
func (rs *recvSpace) continuesAhead(kind wire.Space, op *wire.Op) bool {
	if kind == wire.ResponseSpace {
		op.Opcode = wire.OpReadResp
		return true
	}
	return rs.next.Offset() > 0 && op.Message == rs.next.Message() && rs.continues(op)
}

// checkAhead checks an operation as it would be when it is carried out.
func (c *conn) checkAhead(op *wire.Op, r *packet.Walk) bool {
	switch op.Opcode {
	case wire.OpReadReq:
		return true
	case wire.OpTerm:
		return false
	case wire.OpWrite:
		if op.Length > 0 {
			if dst, _ := c.access().written(Token(op.Token), op.Address, uint32(op.Length)); dst == nil {
				return false
			}
		}
	default:
		sgl, ok := c.placeFor(op)
		if !ok || !c.access().scatter(sgl, op.Offset, uint32(op.Length), false, nil) {
			return false
		}
	}
	r.Skip(int(op.Length))
	return true
}

// placeFor is where the bytes of a SEND or READ_RESP belong: the receive of that SEND number, or the sink of that READ.
func (c *conn) placeFor(op *wire.Op) (sgl []SGE, ok bool) {
	qp := c.qp
	if qp == nil {
		return nil, false
	}
	if op.Opcode == wire.OpReadResp {
		seq, ok := c.reads.find(op.Message)
		if c.noRequests || !ok {
			return nil, false
		}
		return qp.sq.sgl(seq), op.Offset+uint32(op.Length) <= qp.sq.wr(seq).length
	}
	ahead := op.Number - c.receives.Next()
	if qp.State() != QPReady || ahead >= qp.rq.waiting() {
		return nil, false
	}
	seq := qp.rq.head.Load() + ahead
	return qp.rq.sgl(seq), op.Total <= qp.rq.wr(seq).capacity
}

// placeOp places an operation's bytes. All checks were passed in the same turn, so none fails.
func (c *conn) placeOp(op *wire.Op, r *packet.Walk) bool {
	switch op.Opcode {
	case wire.OpWrite:
		if op.Length > 0 {
			dst, g := c.access().written(Token(op.Token), op.Address, uint32(op.Length))
			g.CountWrite()
			r.Place(dst)
		}
	case wire.OpReadReq:
	default:
		sgl, _ := c.placeFor(op)
		c.access().scatter(sgl, op.Offset, uint32(op.Length), false, r)
	}
	return true
}
