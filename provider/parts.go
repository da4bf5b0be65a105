package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends and receives packets in parts (PROTOCOL §4.1): a packet that has a PSN keeps it, and the operations in it,
// when the path becomes too small for it.

// maxAssemblies bounds the packets that an engine puts together from parts at a time, over all connections: 4 MiB.
const maxAssemblies = 64

// partsLife is how long the newest part of a packet keeps the connection from becoming idle, which forgets all parts. The peer
// repeats what it has no acknowledgement for at least every maxRTO; two repetitions in a row may get lost.
const partsLife = 3 * maxRTO

// staging is where a packet is built that is too large for its path, before it is cut into parts. Its frames are ordinary
// memory, made the first time.
type staging struct {
	frames []Frag
	kept   []Frag // the engine's own frames while a packet is being built here; nil otherwise
	pieces [MaxFrags][]byte
	n      int
	ops    int
}

// stage builds the packet with this record again as it was, outside the link's frames. It reports false when the memory
// behind it is gone and the connection with it.
func (c *conn) stage(space wire.Space, rec *txRecord) bool {
	e := c.engine
	s := &e.staging
	if s.frames == nil {
		for range MaxFrags {
			s.frames = append(s.frames, Frag{Data: make([]byte, FrameSize)})
		}
	}
	s.kept, e.frames = e.frames, s.frames
	e.begin(wire.BaseHeaderLen + int(rec.size))
	ok := c.pack(space, rec)
	if s.kept == nil {
		return false // abandoned
	}
	e.frames, s.kept = s.kept, nil
	b := &e.build
	if !b.referred {
		b.closeFrame()
	}
	s.n, s.ops = b.pkt.N, b.ops
	for i := range s.n {
		s.pieces[i] = b.pkt.Frags[i].Data
	}
	s.pieces[0] = s.pieces[0][wire.BaseHeaderLen:]
	b.pkt.N = 0
	return ok && s.ops > 0
}

// unstage gives the engine its own frames back when the packet that is being staged is abandoned.
func (e *Engine) unstage() {
	e.frames, e.staging.kept = e.staging.kept, nil
	e.build.pkt.N = 0
}

// cut appends bytes from to to of the staged operations to the packet that was begun.
func (e *Engine) cut(from, to int) {
	for _, piece := range e.staging.pieces[:e.staging.n] {
		if from < len(piece) {
			n := min(to, len(piece)) - from
			e.payload(piece[from:][:n])
			from += n
		}
		if from -= len(piece); from < 0 {
			from = 0
		}
		if to -= len(piece); to <= 0 {
			return
		}
	}
}

// resendParts sends a packet again that its path does not carry any more. When the link's frames do not suffice, the rest
// follows in a later turn.
func (c *conn) resendParts(space wire.Space, psn wire.PSN, rec *txRecord, flags wire.Flags) bool {
	e := c.engine
	if !c.stage(space, rec) {
		return false
	}
	total := int(rec.size)
	part := wire.Part{Count: uint8(wire.PartsOf(total, int(c.mtu.Packet))), Total: uint16(total)}
	if rec.left == 0 || rec.left > part.Count {
		rec.left = part.Count
	}
	for ; rec.left > 0; rec.left-- {
		rec.part %= part.Count
		c.makeRoom()
		if !e.begin(int(c.mtu.Packet)) {
			e.starved = true
			if rec.state&(recLost|recSacked) == 0 {
				c.tx[space].setLost(rec)
				c.activate()
			}
			return false
		}
		b := &e.build
		part.Index = rec.part
		ext := part.Append(b.buf[b.pos:b.pos])
		b.pos += len(ext)
		b.used += len(ext)
		e.cut(part.Range())
		f := flags | wire.FlagExt
		if rec.left > 1 {
			f &^= wire.FlagAckReq
		}
		rec.part++
		e.stats.PartsOut++
		rec.number = c.sent.Next()
		c.seal(e.staging.ops, f, psn)
	}
	rec.part++ // the next repetition begins elsewhere: a loss that keeps its rhythm must not always take the same part
	return true
}

// assembly is a packet of which parts have arrived.
type assembly struct {
	conn   *conn // nil when the place is free
	space  wire.Space
	psn    wire.PSN
	number uint64    // of the newest part
	part   wire.Part // of the newest: Count and Total say how the packet was cut
	ops    int
	ce     bool
	have   uint64     // bit i: part i is there
	at     clock.Time // when the newest arrived
	buf    []byte     // base header and operations
}

// complete says whether all parts are there.
func (a *assembly) complete() bool { return a.have == ^uint64(0)>>(64-a.part.Count) }

// receivePart takes a part of a packet, and the packet when that was the last one. Nothing in it is used before it is whole;
// until then it may be forgotten, because the peer was not told of it.
func (c *conn) receivePart(p *RxPacket, h wire.BaseHeader) (d wire.DropReason) {
	e := c.engine
	e.stats.PartsIn++
	r := &e.reader
	r.reset(p)
	if r.left < wire.PartLen {
		return wire.DropShort
	}
	var part wire.Part
	var scratch [readRequestLen]byte
	head := r.header(wire.PartLen, &scratch)
	if d := wire.ParsePart(head, r.left, &part); d != wire.DropNone {
		return d
	}
	rs := &c.rx[h.Space()]
	ahead := h.PSN().Sub(rs.next)
	switch {
	case ahead < 0, ahead > 0 && ahead < Window && rs.has(uint32(ahead-1)):
		c.keep()
		c.ackNow()
		return wire.DropDuplicate
	case ahead >= Window:
		return wire.DropWindow
	}
	a := e.assemblyFor(c, h, &part)
	a.at, a.number = e.now, e.in.number
	if a.have&(1<<part.Index) != 0 {
		return wire.DropDuplicate
	}
	a.have |= 1 << part.Index
	a.ce = a.ce || p.CE
	from, to := part.Range()
	r.place(a.buf[wire.BaseHeaderLen+from : wire.BaseHeaderLen+to])
	copy(a.buf, h)
	a.buf[1] &^= byte(wire.FlagAck | wire.FlagReport | wire.FlagExt)
	if ahead > 0 || !a.complete() {
		return wire.DropNone
	}
	whole := e.finishAssembly(a)
	d, _ = c.receiveSequenced(whole, whole.Frags[0].Data[:wire.BaseHeaderLen])
	return d
}

// assemblyFor returns the packet that a part belongs to. Parts that were cut in another way are worthless from now on.
func (e *Engine) assemblyFor(c *conn, h wire.BaseHeader, part *wire.Part) *assembly {
	if e.assemblies == nil {
		e.assemblies = make([]assembly, maxAssemblies)
	}
	var a *assembly
	for i := range e.assemblies {
		x := &e.assemblies[i]
		if x.conn == c && x.space == h.Space() && x.psn == h.PSN() {
			if x.part.Count == part.Count && x.part.Total == part.Total && x.ops == h.OpCount() {
				return x
			}
			e.stats.PartsForgotten++
			a = x
			break
		}
		if a == nil || x.before(a) {
			a = x
		}
	}
	if a.conn != c || a.psn != h.PSN() || a.space != h.Space() {
		if a.conn != nil {
			e.stats.PartsForgotten++
			a.conn.assembling--
		}
		c.assembling++
	}
	need := wire.BaseHeaderLen + int(part.Total)
	if cap(a.buf) < need {
		a.buf = make([]byte, need)
	}
	*a = assembly{conn: c, space: h.Space(), psn: h.PSN(), part: *part, ops: h.OpCount(), buf: a.buf[:need]}
	return a
}

// before says whether a is to be given up before b: a free place, then a packet that its connection does not wait for next,
// then the one that heard nothing for longest.
func (a *assembly) before(b *assembly) bool {
	if a.conn == nil || b.conn == nil {
		return b.conn != nil
	}
	if x, y := a.waited(), b.waited(); x != y {
		return y
	}
	return a.at < b.at
}

// waited says whether the packet is next in its space.
func (a *assembly) waited() bool { return a.conn.rx[a.space].next == a.psn }

// finishAssembly frees the place of a complete packet and returns the packet, which is good until the next part arrives.
func (e *Engine) finishAssembly(a *assembly) *RxPacket {
	a.conn.assembling--
	a.conn = nil
	e.assembled = RxPacket{CE: a.ce, N: 1, Len: len(a.buf), at: wire.BaseHeaderLen}
	e.assembled.Frags[0].Data = a.buf
	e.stats.Reassembled++
	return &e.assembled
}

// acceptAssembled executes the packet that is next in its space if all of its parts are there, and forgets those that have
// become worthless because their packets came whole. It reports whether there was one.
func (c *conn) acceptAssembled(space wire.Space, rs *recvSpace) bool {
	e := c.engine
	for i := range e.assemblies {
		a := &e.assemblies[i]
		if a.conn != c || a.space != space {
			continue
		}
		switch ahead := a.psn.Sub(rs.next); {
		case ahead < 0:
			a.conn = nil
			c.assembling--
		case ahead == 0 && a.complete():
			p := e.finishAssembly(a)
			c.received.Add(a.number, e.now, e.turns.Away())
			c.noteMark(p.CE)
			c.accept(p, p.Frags[0].Data[:wire.BaseHeaderLen], rs)
			return true
		}
	}
	return false
}

// awaitsParts says that the peer is likely to send the parts that are missing.
func (c *conn) awaitsParts() bool {
	if c.assembling == 0 {
		return false
	}
	e := c.engine
	for i := range e.assemblies {
		if a := &e.assemblies[i]; a.conn == c && e.now.Sub(a.at) < partsLife {
			return true
		}
	}
	return false
}

// dropParts forgets all packets of the connection that are not whole.
func (c *conn) dropParts() {
	if c.traffic == nil || c.assembling == 0 {
		return
	}
	for i := range c.engine.assemblies {
		if a := &c.engine.assemblies[i]; a.conn == c {
			a.conn = nil
		}
	}
	c.assembling = 0
}
