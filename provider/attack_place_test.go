package provider

import (
	"bytes"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks by peers on stream offsets, and on the memory for packets that wait behind a gap.

// shoot delivers a packet to side 1. Side 1 must release the packet's frames in the same poll and respect its memory limits.
func (p *pair) shoot(f *forged) {
	p.tb.Helper()
	p.inject(1, f)
	p.eng[1].Run(p.now)
	if len(p.link[1].rxFree) != pipeFrames {
		p.tb.Fatalf("%d receive frames are not given back", pipeFrames-len(p.link[1].rxFree))
	}
	if s := &p.eng[1].store; s.Used() > s.Limit() {
		p.tb.Fatalf("packets that wait take %d bytes, the limit is %d", s.Used(), s.Limit())
	}
}

// firstPiece returns the first segment of a WRITE of total bytes to side 1's region. The segment has 8 bytes.
func (p *pair) firstPiece(total uint32) *forged {
	op := wire.Op{Opcode: wire.OpWrite, Length: 8, Total: total, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())}
	f := p.forge(1).ops(op)
	copy(f.body[len(f.body)-8:], "abcdefgh")
	return f
}

// pieceAt returns a segment of the message that side 1 receives next.
func (p *pair) pieceAt(message uint32, off uint32, payload string, last bool) *forged {
	f := p.forge(1)
	return f.at(wire.RequestSpace, space.At(p.conn(1).traffic.received.spaces[0].next.Message()+message, off)).piece([]byte(payload), last)
}

// moreAt returns the same segment as an operation MORE.
func (p *pair) moreAt(off uint32, payload string, last bool) *forged {
	op := wire.Op{Opcode: wire.OpMore, Length: uint16(len(payload))}
	if last {
		op.Flags = wire.OpLast
	}
	f := p.pieceAt(0, off, "", false).ops(op)
	copy(f.body[len(f.body)-len(payload):], payload)
	return f
}

// If segments with the same offset have different bytes, the first to arrive is used, whether it waits behind a gap or was already
// executed. Drops[duplicate] counts the others.
func TestAttackOtherBytes(t *testing.T) {
	p := newPair(t, 1408).connect()
	first := p.firstPiece(16)
	forgery := p.firstPiece(16)
	copy(forgery.body[len(forgery.body)-8:], "ABCDEFGH")
	second := p.pieceAt(0, 8, "ijklmnop", true)
	for _, f := range []*forged{second, p.pieceAt(0, 8, "IJKLMNOP", true), p.moreAt(8, "IJKLMNOP", true), first, forgery, second} {
		p.shoot(f)
	}
	if got := p.reg[1].Bytes()[:16]; string(got) != "abcdefghijklmnop" {
		t.Errorf("%q", got)
	}
	if n := p.eng[1].Stats().Drops[wire.DropDuplicate]; n != 4 || p.ctr[1].State() != CtrEstablished || p.eng[1].store.Used() != 0 {
		t.Errorf("%d duplicates, %v", n, p.ctr[1].State())
	}
}

// Segments that overlap at different boundaries still complete their message. Each byte of an overlap comes from one of the two
// segments.
func TestAttackOverlap(t *testing.T) {
	p := newPair(t, 1408).connect()
	pieces := []*forged{
		p.pieceAt(0, 8, "ijklmnop", false), p.pieceAt(0, 8, "IJKLMNOPQRSTUVWX", true), p.pieceAt(0, 12, "mnopqrst", false), p.pieceAt(0, 23, "x", true),
	}
	for _, f := range append(pieces, p.firstPiece(24)) {
		p.shoot(f)
	}
	if got := p.reg[1].Bytes()[:25]; !bytes.EqualFold(got, []byte("abcdefghijklmnopqrstuvwx\x00")) {
		t.Errorf("%q", got)
	}
	if p.ctr[1].State() != CtrEstablished || p.eng[1].store.Used() != 0 || p.conn(1).expects()[0] != space.At(1, 0) {
		t.Errorf("%v, %v", p.ctr[1].State(), p.conn(1).expects())
	}
}

// Segments that contradict the first segment of their message end the connection, whichever arrives first. No byte after the first
// segment is written. The peer gets TERM.
func TestAttackContradiction(t *testing.T) {
	overlap := func(op wire.Op) func(p *pair) *forged {
		return func(p *pair) *forged {
			op.Length, op.Address, op.Token = 16, p.reg[1].Base(), uint32(p.reg[1].Token())
			return p.forge(1).ops(op)
		}
	}
	for name, c := range map[string]struct {
		piece func(p *pair) *forged
		after bool // only possible once the first segment was executed
	}{
		"behind the end":           {func(p *pair) *forged { return p.pieceAt(0, 8, "ijklmnopqrstuvwxyz", true) }, false},
		"behind the end, goes on":  {func(p *pair) *forged { return p.pieceAt(0, 8, "ijklmnopqrstuvwxyz", false) }, false},
		"ends too early":           {func(p *pair) *forged { return p.pieceAt(0, 8, "ijkl", true) }, false},
		"goes on at the end":       {func(p *pair) *forged { return p.pieceAt(0, 8, "ijklmnopqrstuvwx", false) }, false},
		"MORE behind the end":      {func(p *pair) *forged { return p.moreAt(8, "ijklmnopqrstuvwxyz", true) }, false},
		"MORE ends too early":      {func(p *pair) *forged { return p.moreAt(8, "ijkl", true) }, false},
		"MORE goes on at the end":  {func(p *pair) *forged { return p.moreAt(8, "ijklmnopqrstuvwx", false) }, false},
		"across the first, no end": {func(p *pair) *forged { return p.pieceAt(0, 4, "efghijklmnopqrstuvwxyz", false) }, false},
		"another total":            {overlap(wire.Op{Opcode: wire.OpWrite, Total: 32}), true},
		"a total that is the end":  {overlap(wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Total: 16}), true},
		"another opcode":           {overlap(wire.Op{Opcode: wire.OpSend, Total: 24}), true},
		"an answer's place": {func(p *pair) *forged {
			return p.pieceAt(0, 8, "ijkl", true).at(wire.ResponseSpace, space.At(0, 0)).ops(wire.Op{Opcode: wire.OpReadResp, Flags: wire.OpLast})
		}, true},
	} {
		for _, before := range []bool{true, false} {
			if before && c.after {
				continue
			}
			p := newPair(t, 1408).connect()
			term := p.conn(1)
			f, first := c.piece(p), p.firstPiece(24)
			if before {
				p.shoot(f)
				p.shoot(first)
			} else {
				p.shoot(first)
				p.shoot(f)
			}
			if term.traffic.served.Term().Reason != wire.TermProtocol || p.ctr[1].State() != CtrLost || p.qp[1].State() != QPError {
				t.Errorf("%s, before %v: %v, %v, %v", name, before, term.traffic.served.Term().Reason, p.ctr[1].State(), p.qp[1].State())
			}
			if got := p.reg[1].Bytes()[:32]; string(got) != "abcdefgh"+string(make([]byte, 24)) {
				t.Errorf("%s, before %v: %q", name, before, got)
			}
			p.gone()
		}
	}
}

// A segment whose last bytes would be beyond the largest offset ends the connection at once, and none of it is written. The peer
// gets TERM.
func TestAttackPlaceThatWraps(t *testing.T) {
	p := newPair(t, 1408).connect()
	c := p.conn(1)
	p.shoot(p.pieceAt(0, 1<<32-16, "ijklmnop", false)) // behind a gap
	if c.traffic.served.Terminated() {
		t.Error("a piece that fits ends the connection")
	}
	p.shoot(p.pieceAt(0, 1<<32-8, "ijklmnopqrstuvwx", false))
	if got := p.reg[1].Bytes()[:24]; string(got) != string(make([]byte, 24)) || c.traffic.served.Term().Reason != wire.TermProtocol {
		t.Errorf("%q, %v", got, c.traffic.served.Term().Reason)
	}
	p.gone()
}

// Segments of a message whose first segment never comes are stored, up to the connection's share of the memory. After
// Config.DeadPeer the connection ends and its memory is free again. Drops[hold_full] counts the rejected packets.
func TestAttackHoleThatNeverFills(t *testing.T) {
	const share = 32
	for name, piece := range map[string]func(p *pair, i uint32) *forged{
		"one piece":        func(p *pair, _ uint32) *forged { return p.pieceAt(0, 8, "i", false) },
		"in order":         func(p *pair, i uint32) *forged { return p.pieceAt(0, 8+i, "i", false) },
		"from the end":     func(p *pair, i uint32) *forged { return p.pieceAt(0, 1<<20-i, "i", false) },
		"growing":          func(p *pair, i uint32) *forged { return p.pieceAt(0, 8, string(make([]byte, 1+i)), false) },
		"of many messages": func(p *pair, i uint32) *forged { return p.pieceAt(i, 8, "i", true) },
		"as operations":    func(p *pair, i uint32) *forged { return p.moreAt(8+i, "i", false) },
		"of the other space": func(p *pair, i uint32) *forged {
			f := p.pieceAt(i, 8, "i", false)
			f.fields.Flags = wire.FlagSpace
			return f
		},
		"of both spaces": func(p *pair, i uint32) *forged {
			f := p.pieceAt(i, 8, "i", false)
			f.fields.Flags = wire.Flags(i%2) * wire.FlagSpace
			return f
		},
		"with much in it":     func(p *pair, i uint32) *forged { return p.pieceAt(0, 8+1300*i, string(make([]byte, 1300)), false) },
		"with more, by pages": func(p *pair, i uint32) *forged { return p.pieceAt(0, 8+60000*i, string(make([]byte, 60000)), false) },
	} {
		p := newTunedPair(t, 65507, 1, Config{HeldBytes: 2 * share * 2048}).connect()
		const shots = 1000
		for i := range uint32(shots) {
			p.shoot(piece(p, i))
		}
		held, d := p.conn(1).traffic.received.spaces[0].gaps.Len()+p.conn(1).traffic.received.spaces[1].gaps.Len(), p.eng[1].Stats().Drops
		if held == 0 || held > share || p.eng[1].store.Used() > share*2048 || uint64(held)+d[wire.DropHoldFull]+d[wire.DropDuplicate] != shots {
			t.Errorf("%s: %d packets wait and take %d bytes, %v", name, held, p.eng[1].store.Used(), d)
		}
		if (d[wire.DropHoldFull] == 0) != (name == "one piece") {
			t.Errorf("%s: %v", name, d)
		}
		p.pass(p.eng[1].cfg.DeadPeer - time.Millisecond)
		if p.ctr[1].State() != CtrEstablished {
			t.Errorf("%s: ended early", name)
		}
		p.pass(2 * time.Millisecond)
		if s := p.eng[1].Stats(); p.ctr[1].State() != CtrLost || s.Lost != 1 || p.eng[1].store.Used() != 0 {
			t.Errorf("%s: %v, %d bytes", name, p.ctr[1].State(), p.eng[1].store.Used())
		}
		p.gone()
	}
}

// Gaps of two hostile connections leave an honest connection of the same engine its share of the memory: packets that it stores
// behind a loss are not dropped. Drops[hold_full] counts the rejected packets.
func TestAttackHolesBesideAnHonestConnection(t *testing.T) {
	const room = 128 // packets
	p := newTunedPair(t, 1408, 1, Config{HeldBytes: room * 2048}).connect()
	var hostile [2][2]*QP
	var ctr []*Connector
	for i := range hostile {
		hostile[i] = p.qp
		ctr = append(ctr, p.ctr[1])
		for side := range 2 {
			p.qp[side] = p.eng[side].NewQP(QPConfig{
				ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 4, MaxInitiatorSGE: 4,
			})
		}
		p.connect()
	}
	honest := p.qp
	flood := func(from uint32) {
		for i := range uint32(500) {
			p.qp = hostile[i%2]
			p.shoot(p.pieceAt(0, 8+from+i, "i", false))
		}
		p.qp = honest
	}
	flood(0)
	for n := range uint32(3) {
		full := p.eng[1].Stats().Drops[wire.DropHoldFull]
		if full == 0 {
			t.Fatal("no share was used up")
		}
		p.fill(0, 0, 12000, byte(n+1))
		p.loseFirst(1, 1, wire.OpWrite)
		p.post(0, p.write(0, 0, 12000))
		p.runUntilIdle()
		if p.eng[1].Stats().Drops[wire.DropHoldFull] != full || p.conn(1).traffic.received.spaces[0].gaps.Len() < 7 {
			t.Errorf("round %d: %d honest packets wait, %v", n, p.conn(1).traffic.received.spaces[0].gaps.Len(), p.eng[1].Stats().Drops)
		}
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if !p.all(1, 0, 12000, byte(n+1)) {
			t.Error("an honest Write is not there")
		}
		flood(500 * (n + 1))
	}
	p.pass(p.eng[1].cfg.DeadPeer + time.Second)
	if ctr[0].State() != CtrLost || ctr[1].State() != CtrLost || p.ctr[1].State() != CtrEstablished || p.eng[1].store.Used() != 0 {
		t.Errorf("%v %v, honest %v, %d bytes", ctr[0].State(), ctr[1].State(), p.ctr[1].State(), p.eng[1].store.Used())
	}
}

// A packet carries the low 16 bits of a message number, and its checksum covers the full number. A packet at least 2^15 messages
// ahead counts as damaged, and a packet less far ahead waits. Either way the attacker affects only that packet, and honest packets
// succeed. Drops[crc] counts the damaged ones.
func TestAttackFarAhead(t *testing.T) {
	for ahead, waits := range map[uint32]int{1: 1, 1 << 14: 1, 1<<15 - 1: 1, 1 << 15: 0, 1<<15 + 1: 0, 1<<16 - 1: 0} {
		p := newPair(t, 1408).connect()
		f := p.firstPiece(16).aim(wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())}, []byte("x"))
		f.fields.Message += ahead
		p.shoot(f)
		if d := p.eng[1].Stats().Drops[wire.DropCRC]; d != uint64(1-waits) || p.conn(1).traffic.received.spaces[0].gaps.Len() != waits || p.reg[1].Bytes()[0] != 0 {
			t.Errorf("%d ahead: %d wait, %d are damaged", ahead, p.conn(1).traffic.received.spaces[0].gaps.Len(), d)
		}
		if ahead != 1 { // otherwise it would be at the offset of the honest packet
			for range 3 {
				p.post(0, p.write(0, 100, 3000))
				p.runUntilIdle()
				p.outcomes(0, OutcomeSuccess)
			}
		}
		p.pass(p.eng[1].cfg.DeadPeer + time.Second)
		if want := map[int]ConnectorState{0: CtrEstablished, 1: CtrLost}[waits]; p.ctr[1].State() != want {
			t.Errorf("%d ahead: %v", ahead, p.ctr[1].State())
		}
		if p.reg[1].Bytes()[0] != 0 || p.eng[1].store.Used() != 0 {
			t.Errorf("%d ahead: it was carried out", ahead)
		}
	}
}

// If a packet cannot be executed, no stored packet with the same or a later offset is executed in its place. Drops[token] counts
// it.
func TestAttackInsteadOfWhatFailed(t *testing.T) {
	p := newPair(t, 1408).connect()
	right := wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())}
	wrong := right
	wrong.Token ^= 1
	for ahead := range uint32(2) {
		waits := p.forge(1).aim(right, []byte("x"))
		waits.fields.Message += 1 + ahead
		p.shoot(waits)
	}
	p.shoot(p.forge(1).ops(wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast}, wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Length: 1, Address: wrong.Address, Token: wrong.Token}))
	if p.reg[1].Bytes()[0] != 0 || p.eng[1].Stats().Drops[wire.DropToken] != 1 || p.ctr[1].State() != CtrLost {
		t.Errorf("%q, %v, %v", p.reg[1].Bytes()[0], p.eng[1].Stats().Drops, p.ctr[1].State())
	}
	p.gone()
}

// A TERM may take the place of any part of an answer. It is processed once everything before it has arrived, also if some of the
// replaced contents arrived. The operations behind it in its packet are ignored. The outcome of the READ shows it.
func TestAttackTermInTheMiddle(t *testing.T) {
	term := wire.Op{Opcode: wire.OpTerm, Flags: wire.OpLast, Reason: wire.TermReadAccess, FailedOp: wire.OpReadReq}
	for name, c := range map[string]struct {
		at    uint32
		ops   []wire.Op
		early bool // TERM comes before the first segment
	}{
		"next":                     {at: 1000, ops: []wire.Op{term}},
		"where something arrived":  {at: 500, ops: []wire.Op{term}},
		"where everything arrived": {at: 0, ops: []wire.Op{term}},
		"before what is before it": {at: 1000, ops: []wire.Op{term}, early: true},
		"with an answer behind it": {at: 1000, ops: []wire.Op{term, {Opcode: wire.OpReadResp, Flags: wire.OpLast}}},
		"twice in a packet":        {at: 1000, ops: []wire.Op{term, term}},
	} {
		p := newPair(t, 1408).connect()
		number := p.conn(0).traffic.received.numbers.Largest() + 1000
		p.link[0].mangle = func(b []byte) bool { return !sequenced(b) || wire.BaseHeader(b).Number() == uint32(number) }
		p.post(0, p.read(0, 3000))
		p.eng[0].Run(p.now)
		message := p.qp[0].sq.wr(0).message
		forge := func(off uint32, ops ...wire.Op) {
			for i := range ops {
				if ops[i].Opcode == wire.OpTerm {
					ops[i].Number = message
				}
			}
			f := p.forge(0).at(wire.ResponseSpace, space.At(0, off)).ops(ops...)
			f.fields.Number = number
			p.inject(0, f)
			p.eng[0].Run(p.now)
		}
		piece := func() { forge(0, wire.Op{Opcode: wire.OpReadResp, Length: 1000, Total: 3000}) }
		if !c.early {
			piece()
		}
		forge(c.at, c.ops...)
		if c.early {
			if p.ctr[0].State() != CtrEstablished {
				t.Errorf("%s: processed too early", name)
			}
			piece()
		}
		p.runUntilIdle()
		if rs := p.results(0); len(rs) != 1 || rs[0].Outcome != OutcomeReadRefused || p.ctr[0].State() != CtrLost {
			t.Errorf("%s: %+v, %v", name, rs, p.ctr[0].State())
		}
		if len(p.link[0].rxFree) != pipeFrames || p.eng[0].store.Used() != 0 {
			t.Errorf("%s: something is kept", name)
		}
	}
}
