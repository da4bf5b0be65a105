package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Packets that no correct peer sends. Each is counted under its reason and changes nothing.

// forged is a packet to be made for one side of an established pair.
type forged struct {
	fields wire.BaseFields
	ack    *wire.Ack    // no ACK block if nil
	report *wire.Report // no REPORT block if nil
	body   []byte
	from   wire.Endpoint
	bulk   bool                  // the packet arrives on the bulk path
	fix    func(b []byte)        // runs before the checksum is computed
	spoil  func(b []byte) []byte // runs after the checksum was computed
}

// forge starts a packet that side's connection would accept from its peer: a WRITE of length zero, the next in order.
func (p *pair) forge(side int) *forged {
	c := p.conn(side)
	f := &forged{from: c.identity.remote, fields: wire.BaseFields{ConnID: c.identity.id, Number: c.traffic.received.numbers.Largest()}}
	return f.at(wire.RequestSpace, c.traffic.received.spaces[wire.RequestSpace].next).ops(wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast})
}

// at sets the space and the offset of the packet's contents.
func (f *forged) at(sp wire.Space, at space.Place) *forged {
	f.fields.Message, f.fields.Offset = at.Message(), at.Offset()
	f.fields.Flags = wire.Flags(sp) * wire.FlagSpace
	return f
}

// ops makes it a packet of operations, whose payload is zeros.
func (f *forged) ops(ops ...wire.Op) *forged {
	f.fields.Operations, f.fields.Piece, f.body = true, false, nil
	for i := range ops {
		f.body = append(f.body, make([]byte, -len(f.body)&(wire.OpAlign-1))...)
		var header [wire.MaxOpHeader]byte
		n := wire.PutOp(header[:], &ops[i])
		f.body = append(append(f.body, header[:n]...), make([]byte, ops[i].Length)...)
	}
	return f
}

// piece makes the packet one segment of the message at its offset.
func (f *forged) piece(payload []byte, last bool) *forged {
	f.fields.Operations, f.fields.Piece, f.body = false, true, payload
	if last {
		f.fields.Flags |= wire.FlagEnd
	}
	return f
}

func (f *forged) control(op wire.Opcode, body []byte) {
	f.bare()
	f.body = make([]byte, wire.ControlHeaderLen)
	wire.PutControl(f.body, op, 0, len(body))
	f.body = append(f.body, body...)
}

// bare makes it a control packet without blocks and message.
func (f *forged) bare() {
	f.fields = wire.BaseFields{ConnID: f.fields.ConnID, Number: f.fields.Number}
	f.body = nil
}

// alone makes it a control packet of blocks alone.
func (f *forged) alone(a *wire.Ack) {
	f.bare()
	f.ack = a
}

// acks is an ACK block for side 1. The largest number is ahead of that side's next packet number by ahead. The first range begins
// last numbers below the largest.
func (p *pair) acks(ahead int, last uint32) *wire.Ack {
	a := &wire.Ack{Largest: uint32(p.conn(1).traffic.sent.packets.Next()) + uint32(ahead), Delay: wire.AckDelayUnknown, N: 1}
	a.Ranges[0].Last = last
	return a
}

// inject delivers the packet to side.
func (p *pair) inject(side int, f *forged) {
	b := f.bytes()
	t := &TxPacket{N: 1, Len: len(b), Bulk: f.bulk}
	t.Frags[0].Data = b
	p.link[side].deliver(t, f.from, wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort})
}

// bytes encodes the packet.
func (f *forged) bytes() []byte {
	fields := f.fields
	b := make([]byte, wire.BaseHeaderLen, 1500)
	if f.ack != nil {
		fields.Flags |= wire.FlagAck
		b = f.ack.Append(b)
	}
	if f.report != nil {
		fields.Flags |= wire.FlagReport
		b = f.report.Append(b)
	}
	wire.PutBaseHeader(b, &fields)
	b = append(b, f.body...)
	if f.fix != nil {
		f.fix(b)
	}
	wire.PutCRC(b, wire.SumFirst(fields.Number, fields.Message, b))
	if f.spoil != nil {
		b = f.spoil(b)
	}
	return b
}

// seal computes the checksum of a packet of a new connection, in which the full numbers equal the truncated numbers.
func seal(b []byte) {
	h := wire.BaseHeader(b[:wire.BaseHeaderLen])
	wire.PutCRC(b, wire.SumFirst(uint64(h.Number()), uint32(h.Message()), b))
}

// badPackets has, for each case, a change that makes a valid packet invalid, and the reason under which the receiver drops the
// packet.
var badPackets = map[string]struct {
	change func(p *pair, f *forged)
	drop   wire.DropReason
}{
	"nothing wrong":               {func(*pair, *forged) {}, wire.DropNone},
	"checksum":                    {func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { b[30] ^= 1; return b } }, wire.DropCRC},
	"short":                       {func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { return b[:wire.BaseHeaderLen-1] } }, wire.DropShort},
	"truncated":                   {func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { return b[:30] } }, wire.DropCRC},
	"version":                     {func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { b[0] = (wire.Version+1)<<4 | 1; return b } }, wire.DropVersion},
	"reserved nibble":             {func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { b[0] |= 2; return b } }, wire.DropReserved},
	"reserved flag":               {func(_ *pair, f *forged) { f.fields.Flags = 0x40 }, wire.DropReserved},
	"sealed":                      {func(_ *pair, f *forged) { f.fields.Flags = wire.FlagSecure }, wire.DropSealed},
	"wrong id":                    {func(_ *pair, f *forged) { f.fields.ConnID ^= 1 << 40 }, wire.DropUnknownConn},
	"wrong slot":                  {func(_ *pair, f *forged) { f.fields.ConnID ^= 1 << 3 }, wire.DropUnknownConn},
	"wrong port":                  {func(_ *pair, f *forged) { f.from.Port, f.fields.Number = f.from.Port^1, f.fields.Number+1<<16 }, wire.DropPath},
	"wrong address":               {func(_ *pair, f *forged) { f.from.IP[15] ^= 8 }, wire.DropAddress},
	"a piece that is a first one": {func(_ *pair, f *forged) { f.piece(make([]byte, 8), false) }, wire.DropReserved},
	"the end of no piece":         {func(_ *pair, f *forged) { f.fields.Flags |= wire.FlagEnd }, wire.DropReserved},
	"control with a message":      {func(_ *pair, f *forged) { f.control(wire.CtlPing, nil); f.fields.Message = 1 }, wire.DropReserved},
	"control with an offset":      {func(_ *pair, f *forged) { f.control(wire.CtlPing, nil); f.fields.Offset = 1 }, wire.DropReserved},
	"control of a space":          {func(_ *pair, f *forged) { f.control(wire.CtlPing, nil); f.fields.Flags = wire.FlagSpace }, wire.DropReserved},
	"control that ends a message": {func(_ *pair, f *forged) { f.control(wire.CtlPing, nil); f.fields.Flags = wire.FlagEnd }, wire.DropReserved},
	"duplicate":                   {func(_ *pair, f *forged) { f.fields.Message-- }, wire.DropDuplicate},
	"long gone":                   {func(_ *pair, f *forged) { f.fields.Message -= 1 << 14 }, wire.DropDuplicate},
	"as far ahead as behind":      {func(_ *pair, f *forged) { f.fields.Message += 1 << 15 }, wire.DropCRC},
	"below the floor":             {func(_ *pair, f *forged) { f.fields.Number -= wire.MaxNumbers }, wire.DropOld},
	"acks the unsent":             {func(p *pair, f *forged) { f.ack = p.acks(0, 0) }, wire.DropAckRange},
	"acks far ahead":              {func(p *pair, f *forged) { f.ack = p.acks(1<<30, 0) }, wire.DropAckRange},
	"acks what was before the first": {func(p *pair, f *forged) {
		f.ack = p.acks(-1, uint32(p.conn(1).traffic.sent.packets.Next()-p.conn(1).traffic.sent.packets.First()))
	}, wire.DropAckRange},
	"a range that wraps": {func(p *pair, f *forged) { f.ack = p.acks(-1, 1<<32-1) }, wire.DropAckRange},
	"ranges that wrap": {func(p *pair, f *forged) {
		f.ack = p.acks(-1, 0)
		f.ack.N = 3
		f.ack.Ranges[1] = wire.AckRange{First: 2, Last: 1 << 31}
		f.ack.Ranges[2] = wire.AckRange{First: 1<<31 + 2, Last: 1<<32 - 1}
	}, wire.DropAckRange},
	"takes back the unsent": {func(p *pair, f *forged) {
		c := p.conn(1)
		f.report = &wire.Report{Flags: wire.ReportTakenBack, Message: uint16(c.requestNumbers.nextMessage), UpTo: uint32(c.traffic.sent.packets.Next())}
	}, wire.DropAckRange},
	"takes back beyond": {func(p *pair, f *forged) {
		c := p.conn(1)
		f.report = &wire.Report{Flags: wire.ReportTakenBack, Message: uint16(c.requestNumbers.nextMessage) + 1, UpTo: uint32(c.traffic.sent.packets.Next() - 1)}
	}, wire.DropAckRange},
	"takes back a byte beyond": {func(p *pair, f *forged) {
		c := p.conn(1)
		f.report = &wire.Report{Flags: wire.ReportTakenBack, Message: uint16(c.requestNumbers.nextMessage), Offset: 1, UpTo: uint32(c.traffic.sent.packets.Next() - 1)}
	}, wire.DropAckRange},
	"RNR without place": {func(_ *pair, f *forged) { f.report = &wire.Report{Flags: wire.ReportRNR} }, wire.DropReserved},
	"unknown control":   {func(_ *pair, f *forged) { f.control(0x1f, nil) }, wire.DropOpcode},
	"short control":     {func(_ *pair, f *forged) { f.control(wire.CtlPing, make([]byte, 4)) }, wire.DropLength},
	"late handshake":    {func(_ *pair, f *forged) { f.control(wire.CtlREPACK, nil) }, wire.DropState},
	"ACK of the unsent": {func(p *pair, f *forged) {
		f.alone(p.acks(0, 0))
	}, wire.DropAckRange},
	"version 1": {func(_ *pair, f *forged) { f.fix = func(b []byte) { b[0] = b[0]&0xf | 1<<4 } }, wire.DropVersion},
	"RST by a stranger": {func(p *pair, f *forged) {
		m := wire.Reset{ConnID: p.conn(0).identity.id}
		f.control(wire.CtlRST, m.Append(nil))
		f.fields.ConnID = 0
	}, wire.DropRSTToken},
}

func TestBadPacketsAreCountedAndIgnored(t *testing.T) {
	for name, c := range badPackets {
		p := newPair(t, 1408).connect()
		f := p.forge(1)
		c.change(p, f)
		before := p.eng[1].Stats()
		rx, tx := p.conn(1).expects(), p.conn(1).traffic.sent.una()
		p.inject(1, f)
		p.eng[1].Run(p.now)
		after := p.eng[1].Stats()
		if c.drop != wire.DropNone && after.Drops[c.drop] != before.Drops[c.drop]+1 {
			t.Errorf("%s: not counted as %v: %v", name, c.drop, after.Drops)
		}
		if c.drop != wire.DropNone && rx != p.conn(1).expects() || tx != p.conn(1).traffic.sent.una() || p.eng[1].store.Used() != 0 {
			t.Errorf("%s: something changed", name)
		}
		if len(p.link[1].rxFree) != pipeFrames {
			t.Errorf("%s: a frame is missing", name)
		}
		if c.drop == wire.DropNone { // the peer has not sent this packet, so the two sides disagree from here on
			continue
		}
		p.runUntilIdle()
		p.post(0, p.write(0, 0, 3000))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
	}
}

// Operations with a right checksum and invalid contents end the connection, because the peer is faulty.
func TestMalformedOperationsEndTheConnection(t *testing.T) {
	put := func(op wire.Op) func(f *forged) { return func(f *forged) { f.ops(op) } }
	const whole = wire.OpLast
	for name, change := range map[string]func(f *forged){
		"opcode":   func(f *forged) { f.body[0] = 0x0f },
		"space":    put(wire.Op{Opcode: wire.OpTerm, Flags: whole}),
		"op flags": func(f *forged) { f.body[1] |= 0x80 },
		"first":    func(f *forged) { f.body[1] |= 1 },
		"too few bytes": func(f *forged) {
			f.ops(wire.Op{Opcode: wire.OpWrite, Flags: whole, Length: 8})
			f.body = f.body[:len(f.body)-8]
		},
		"too many bytes": func(f *forged) { f.body = append(f.body, 0, 0, 0, 0) },
		"padding behind": func(f *forged) {
			f.ops(wire.Op{Opcode: wire.OpWrite, Flags: whole, Length: 1})
			f.body = append(f.body, make([]byte, 7)...)
		},
		"short header":    func(f *forged) { f.body = f.body[:10] },
		"nothing":         func(f *forged) { f.body = nil },
		"nothing, ahead":  func(f *forged) { f.body = nil; f.fields.Message++ },
		"an empty piece":  func(f *forged) { f.piece(nil, true); f.fields.Offset = 8 },
		"send number":     put(wire.Op{Opcode: wire.OpSend, Flags: whole, Number: 1}),
		"send offset":     func(f *forged) { f.ops(wire.Op{Opcode: wire.OpSend, Flags: whole}); f.fields.Offset = 5 },
		"send unasked":    put(wire.Op{Opcode: wire.OpSend, Flags: whole}),
		"read id":         put(wire.Op{Opcode: wire.OpReadReq, Flags: whole, Number: 7}),
		"read goes on":    put(wire.Op{Opcode: wire.OpReadReq}),
		"invalidate":      put(wire.Op{Opcode: wire.OpSendInv, Flags: whole}),
		"half a READ_REQ": func(f *forged) { f.ops(wire.Op{Opcode: wire.OpReadReq, Flags: whole}); f.body = f.body[:16] },
		"response unasked": func(f *forged) {
			f.ops(wire.Op{Opcode: wire.OpReadResp, Flags: whole})
			f.fields.Flags |= wire.FlagSpace
		},
		"more of nothing":            put(wire.Op{Opcode: wire.OpMore, Flags: whole, Length: 8}),
		"more without bytes":         func(f *forged) { f.ops(wire.Op{Opcode: wire.OpMore, Flags: whole}); f.fields.Offset = 8 },
		"goes on, empty":             put(wire.Op{Opcode: wire.OpWrite, Total: 8}),
		"goes on, and is whole":      put(wire.Op{Opcode: wire.OpWrite, Length: 8, Total: 8}),
		"goes on beyond its total":   put(wire.Op{Opcode: wire.OpWrite, Length: 8, Total: 4}),
		"SEND ends before its total": put(wire.Op{Opcode: wire.OpSend, Flags: whole, Length: 8, Total: 16}),
		"SEND goes on, and is whole": put(wire.Op{Opcode: wire.OpSend, Length: 8, Total: 8}),
		"response ends before its total": func(f *forged) {
			f.ops(wire.Op{Opcode: wire.OpReadResp, Flags: whole, Length: 8, Total: 16})
			f.fields.Flags |= wire.FlagSpace
		},
	} {
		p := newPair(t, 1408).connect()
		f := p.forge(1)
		change(f)
		p.inject(1, f)
		p.eng[1].Run(p.now)
		if n := p.dropped(1); n != 1 {
			t.Errorf("%s: %d packets are counted as not used", name, n)
		}
		p.runUntilIdle()
		if p.qp[1].State() != QPError || p.ctr[1].State() != CtrLost || p.ctr[0].State() != CtrLost {
			t.Errorf("%s: %v, %v, %v", name, p.qp[1].State(), p.ctr[1].State(), p.ctr[0].State())
		}
		if len(p.link[1].rxFree) != pipeFrames {
			t.Errorf("%s: a frame is missing", name)
		}
	}
}

// A repeated TERM is acknowledged again. A copy of the packet that caused it is not executed.
func TestTermAndWhatItAnswersActOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fill(0, 0, 10, 1)
	bad := p.write(0, 0, 10)
	bad.Token ^= 1
	p.post(0, p.write(0, 0, 10)) // in one packet with the invalid request
	p.post(0, bad)
	p.loseFirst(0, 1, wire.OpTerm)
	p.runUntilIdle()
	if !p.all(1, 0, 10, 1) {
		t.Fatal("the first Write is not there")
	}
	p.fill(1, 0, 10, 2) // the connection is over here, so the application may use its memory
	p.loseFirst(1, 1, blocksAlone)
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess, OutcomeAccessViolation)
	if !p.all(1, 0, 10, 2) {
		t.Error("the packet that failed was carried out again")
	}
	p.pass(5 * time.Second)
	for i := range 2 {
		if s := p.eng[i].Stats(); s.Connections != 0 || s.IllegalTransitions != 0 || s.Lost != 1 {
			t.Errorf("engine %d: %+v", i, s)
		}
	}
}

// Both sides detect a fault at the same time. Each sends TERM, and each TERM is lost once.
func TestTermsThatCross(t *testing.T) {
	p := newPair(t, 1408).connect()
	for side := range 2 {
		bad := p.write(side, 0, 10)
		bad.Token ^= 1
		p.post(side, bad)
	}
	p.eng[0].Run(p.now)
	waiting := p.link[1].count
	p.link[1].count = 0 // engine 1 sends before it receives the packet of engine 0
	p.eng[1].Run(p.now)
	p.link[1].count = waiting
	p.pass(time.Second)
	p.outcomes(0, OutcomeCanceled)
	p.outcomes(1, OutcomeCanceled)
	p.pass(20 * time.Second)
	for i := range 2 {
		if s := p.eng[i].Stats(); s.Connections != 0 || s.IllegalTransitions != 0 || s.Lost != 1 {
			t.Errorf("engine %d: %+v", i, s)
		}
	}
}

// A packet that waited behind a gap may end the connection when it is executed. Its frames are released once.
func TestHeldPacketThatEndsTheConnection(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.read(0, 1300))
	p.post(0, p.read(0, 1300))
	p.loseFirst(0, 1, wire.OpReadResp) // the second response and the TERM behind it wait for the first response
	p.turn()
	bad := p.write(0, 0, 10)
	bad.Token ^= 1
	p.post(0, bad)
	p.pass(time.Second)
	if rs := p.results(0); len(rs) != 3 {
		t.Fatalf("%+v", rs)
	}
	p.pass(20 * time.Second)
	for i := range 2 {
		if s := p.eng[i].Stats(); s.Connections != 0 || s.IllegalTransitions != 0 {
			t.Errorf("engine %d: %+v", i, s)
		}
		if len(p.link[i].rxFree) != pipeFrames {
			t.Errorf("engine %d: %d frames of %d", i, len(p.link[i].rxFree), pipeFrames)
		}
	}
}

func TestHandshakeOfAPeerThatCannotBeTalkedTo(t *testing.T) {
	for name, change := range map[string]func(h *wire.Hello){
		"tiny packets": func(h *wire.Hello) { h.MaxPacket = 100 },
	} {
		p := newPair(t, 1408)
		l := p.eng[1].NewListener()
		_, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
		p.must(o)
		p.must(l.Listen(1))
		h := wire.Hello{ConnID: 77, DstPort: pairPort, UDPPort: wire.DefaultPort, SrcPort: 1, MinVersion: 1, MaxVersion: 1, MaxPacket: 1408, Window: 16}
		change(&h)
		f := &forged{from: wire.Endpoint{IP: pairIP[0], Port: wire.SourcePort(77)}}
		f.control(wire.CtlREQ, h.Append(nil))
		f.body = append(f.body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(f.body))...)
		p.inject(1, f)
		p.runUntilIdle()
		if s := p.eng[1].Stats(); s.Connections != 0 || s.Drops[wire.DropAddress] != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// If a peer reports a window near zero, the window counts as one packet: otherwise our side would be blocked for ever.
func TestPeerThatHoldsNothingGetsAPacketAtATime(t *testing.T) {
	for _, window := range []uint32{0, 1, minWindow, minWindow + 1} {
		w := newWorld(newLanes(), 0, Config{})
		w.listen()
		w.inject(asking(address(1), &wire.Hello{
			ConnID: 7, Nonce: 7, SrcPort: 5, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: window,
		}))
		n := 0
		for c := range w.eng[1].group.conns.all {
			n++
			if c.peerWindow != max(window, minWindow) {
				t.Errorf("%d bytes are used as %d", window, c.peerWindow)
			}
		}
		if n != 1 {
			t.Errorf("%d connections", n)
		}
	}
}
