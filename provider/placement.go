package provider

import "github.com/ndxdp/ndxdp/wire"

// This file places the bytes of packets that arrive before one sent earlier (Config.ImmediatePlacement, PROTOCOL §9.1). All else that
// a packet does waits for its turn: completions, READs, invalidations, and errors. A packet is placed when every operation in it
// passes its checks now; otherwise it waits in its frames like without the option, and fails, or does not, when its turn comes.

// maxPlacedOps is how many operations besides WRITEs a packet that is placed early may have: what remains to be done for it is
// kept, and is smaller than its frames.
const maxPlacedOps = 4

// placedPacket is what remains to be done for a packet whose bytes are in place: its operations without the WRITEs.
type placedPacket struct {
	ops [maxPlacedOps]wire.Op
	at  [maxPlacedOps]uint8 // the place of each in the packet
	n   uint8
}

// placeAhead places the bytes of a packet behind a gap, and returns what stands for it until its turn comes. It fails when the
// packet has to wait in its frames; nothing was touched then.
func (c *conn) placeAhead(p *RxPacket, h wire.BaseHeader) (mark heldPacket, ok bool) {
	e := c.engine
	e.received.plan.n = 0
	if !c.walkAhead(p, h, c.planAhead) {
		return 0, false
	}
	mark = heldNothing
	if e.received.plan.n > 0 {
		if mark, ok = e.received.hold(nil); !ok {
			return 0, false
		}
	}
	c.walkAhead(p, h, c.placeOp)
	return mark, true
}

// walkAhead goes through a packet's operations as long as each says so. It reports whether it got to the end.
func (c *conn) walkAhead(p *RxPacket, h wire.BaseHeader, each func(i int, op *wire.Op, r *reader) bool) bool {
	r, op := &c.engine.reader, &c.engine.op2
	r.reset(p)
	for i := range h.OpCount() {
		if r.operation(i, h.Space(), op) != wire.DropNone {
			return false
		}
		op.FailedPSN = h.PSN()
		if !each(i, op, r) {
			return false
		}
	}
	return r.left == 0
}

// planAhead checks an operation as it would be when it is carried out, and notes it if it has more to do than to place bytes.
func (c *conn) planAhead(i int, op *wire.Op, r *reader) bool {
	plan := &c.engine.received.plan
	switch op.Opcode {
	case wire.OpWrite:
		if op.Length > 0 {
			dst, _ := c.engine.mem.Remote(c.qp.user(), Token(op.Token), op.Address, uint64(op.Length), RightRemoteWrite)
			if dst == nil {
				return false
			}
			r.skip(int(op.Length))
		}
		return true
	case wire.OpReadReq:
	case wire.OpTerm:
		return false
	default:
		sgl, ok := c.placeFor(op)
		if !ok || !c.scatter(sgl, op.Offset, uint32(op.Length), false, nil) {
			return false
		}
		r.skip(int(op.Length))
	}
	if plan.n == maxPlacedOps {
		return false
	}
	plan.ops[plan.n], plan.at[plan.n] = *op, uint8(i)
	plan.n++
	return true
}

// placeFor is where the bytes of a SEND or READ_RESP belong: the receive of that SEND number, or the sink of that READ.
func (c *conn) placeFor(op *wire.Op) (sgl []SGE, ok bool) {
	qp := c.qp
	if qp == nil {
		return nil, false
	}
	if op.Opcode == wire.OpReadResp {
		o := &c.reads
		if c.noRequests || op.Number-o.head >= o.count {
			return nil, false
		}
		seq := o.seqs[op.Number%maxReadLimit]
		return qp.sq.sgl(seq), op.Total == qp.sq.wr(seq).length
	}
	ahead := op.Number - c.recvSend
	if qp.State() != QPReady || ahead >= qp.rq.waiting() {
		return nil, false
	}
	seq := qp.rq.head.Load() + ahead
	return qp.rq.sgl(seq), op.Total <= qp.rq.wr(seq).capacity
}

// placeOp places an operation's bytes. All checks were passed in the same turn, so none fails.
func (c *conn) placeOp(_ int, op *wire.Op, r *reader) bool {
	switch op.Opcode {
	case wire.OpWrite:
		if op.Length > 0 {
			dst, g := c.engine.mem.Remote(c.qp.user(), Token(op.Token), op.Address, uint64(op.Length), RightRemoteWrite)
			g.CountWrite()
			r.place(dst)
		}
	case wire.OpReadReq:
	default:
		sgl, _ := c.placeFor(op)
		c.scatter(sgl, op.Offset, uint32(op.Length), false, r)
	}
	return true
}

// acceptPlaced does what remains of a packet whose turn has come. It reports what execute does.
func (c *conn) acceptPlaced(rec *placedPacket) bool {
	for i := range rec.n {
		if !c.executeOp(&rec.ops[i], nil) {
			c.wait.done = rec.at[i]
			return false
		}
	}
	return true
}
