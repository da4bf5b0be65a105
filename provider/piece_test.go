package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Segments that are valid one by one but do not form a valid message together. The peer is faulty or hostile, and no request may
// succeed by them.

// inOrder injects packets of one operation each at side, as its peer would send them: each is the next one of its space. With bare,
// later segments of a message arrive without operation headers.
func (p *pair) inOrder(side int, sp wire.Space, bare bool, ops []wire.Op) {
	at := p.conn(side).traffic.received.spaces[sp].next
	for _, op := range ops {
		f := p.forge(side).at(sp, at)
		if bare && op.Opcode == wire.OpMore {
			f.piece(make([]byte, op.Length), op.Flags&wire.OpLast != 0)
		} else {
			f.ops(op)
		}
		p.inject(side, f)
		p.eng[side].Run(p.now)
		at = at.After(uint32(op.Length), op.Flags&wire.OpLast != 0)
	}
	p.runUntilIdle()
}

const last = wire.OpLast

// more is a later segment of a message.
func more(flags wire.OpFlags, length uint16) wire.Op {
	return wire.Op{Opcode: wire.OpMore, Flags: flags, Length: length}
}

// onlyWithHeader names the cases that need an operation header: without it the segment cannot express the fault.
var onlyWithHeader = map[string]bool{
	"asks to wake in the middle": true, "goes on with nothing": true, "goes on with what is over": true,
}

func TestPiecesThatMakeNoSend(t *testing.T) {
	send := func(flags wire.OpFlags, number uint32, length uint16, total uint32) wire.Op {
		return wire.Op{Opcode: wire.OpSend, Flags: flags, Length: length, Number: number, Total: total}
	}
	solicited := more(last, 8)
	solicited.Flags |= wire.OpSolicit
	for name, ops := range map[string][]wire.Op{
		"ends before its total":        {send(last, 0, 8, 16)},
		"goes on at its end":           {send(0, 0, 16, 16)},
		"longer than its total":        {send(last, 0, 16, 8)},
		"another number":               {send(last, 1, 8, 8)},
		"goes on with what is over":    {{Opcode: wire.OpWrite, Flags: last, Length: 8, Total: 8}, more(last, 8)},
		"goes on with nothing":         {more(last, 8)},
		"begins in the middle":         {send(0, 0, 8, 24), send(last, 0, 16, 16)},
		"begins again in the middle":   {send(0, 0, 8, 24), {Opcode: wire.OpWrite, Flags: last}},
		"goes on beyond its total":     {send(0, 0, 8, 24), more(last, 24)},
		"goes on far beyond its total": {send(0, 0, 8, 24), more(0, 1000)},
		"does not end at its end":      {send(0, 0, 8, 24), more(0, 16)},
		"ends in the middle":           {send(0, 0, 8, 24), more(last, 8)},
		"ends in the middle, later":    {send(0, 0, 8, 24), more(0, 8), more(last, 4)},
		"goes on with nothing in it":   {send(0, 0, 8, 24), more(0, 0)},
		"empty, and goes on":           {send(0, 0, 0, 24)},
		"asks to wake in the middle":   {send(0, 0, 8, 16), solicited},
	} {
		for _, bare := range []bool{false, true} {
			if bare && onlyWithHeader[name] {
				continue
			}
			p := newPair(t, 1408).connect()
			p.receive(1, 0, 64)
			for i := range ops {
				if op := &ops[i]; op.Opcode == wire.OpWrite && op.Length > 0 {
					op.Address, op.Token = p.reg[1].Base()+1<<20, uint32(p.reg[1].Token())
				}
			}
			p.fill(1, 0, 2000, 7)
			p.inOrder(1, wire.RequestSpace, bare, ops)
			if rs := p.results(1); len(rs) != 1 || rs[0].Outcome != OutcomeCanceled || p.qp[1].State() != QPError || p.ctr[1].State() != CtrLost {
				t.Errorf("%s, bare %v: %+v, %v, %v", name, bare, rs, p.qp[1].State(), p.ctr[1].State())
			}
			if !p.all(1, 24, 2000-24, 7) {
				t.Errorf("%s, bare %v: bytes behind the message were written", name, bare)
			}
		}
	}
}

func TestPiecesThatAnswerNoRead(t *testing.T) {
	answer := func(flags wire.OpFlags, length uint16, total uint32) wire.Op {
		return wire.Op{Opcode: wire.OpReadResp, Flags: flags, Length: length, Total: total}
	}
	for name, ops := range map[string][]wire.Op{
		"of no Read":                 {answer(last, 16, 16), answer(last, 16, 16)},
		"goes on with nothing":       {more(last, 8)},
		"begins in the middle":       {answer(0, 8, 16), answer(last, 8, 8)},
		"shorter than the Read":      {answer(last, 8, 8)},
		"longer than the Read":       {answer(0, 8, 24)},
		"ends before its total":      {answer(last, 8, 16)},
		"does not end at its end":    {answer(0, 8, 16), more(0, 8)},
		"goes on beyond its end":     {answer(0, 8, 16), more(last, 16)},
		"ends in the middle":         {answer(0, 8, 16), more(last, 4)},
		"empty, and goes on":         {answer(0, 0, 16)},
		"goes on with nothing in it": {answer(0, 8, 16), more(0, 0)},
	} {
		for _, bare := range []bool{false, true} {
			if bare && onlyWithHeader[name] {
				continue
			}
			p := newPair(t, 1408).connect()
			p.link[1].mangle = func([]byte) bool { return false } // the peer does not know of the Read, and does not answer
			p.post(0, p.read(0, 16))
			p.fill(0, 16, 100, 7)
			p.runUntilIdle()
			p.inOrder(0, wire.ResponseSpace, bare, ops)
			if rs := p.results(0); len(rs) != 1 || rs[0].Outcome != OutcomeCanceled || p.ctr[0].State() != CtrLost || !p.all(0, 16, 100, 7) {
				t.Errorf("%s, bare %v: %+v, %v", name, bare, rs, p.ctr[0].State())
			}
		}
	}
}

// Segments of a WRITE never write outside of its range, wherever they claim that the WRITE ends.
func TestPiecesThatMakeNoWrite(t *testing.T) {
	for name, further := range map[string]wire.Op{
		"beyond its total":        more(last, 24),
		"far beyond its total":    more(0, 1000),
		"does not end at its end": more(0, 16),
		"ends in the middle":      more(last, 8),
	} {
		for _, bare := range []bool{false, true} {
			p := newPair(t, 1408).connect()
			p.fill(1, 0, 2000, 7)
			p.inOrder(1, wire.RequestSpace, bare, []wire.Op{{
				Opcode: wire.OpWrite, Length: 8, Total: 24, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()),
			}, further})
			if !p.all(1, 0, 8, 0) || !p.all(1, 8, 1992, 7) || p.ctr[1].State() != CtrLost {
				t.Errorf("%s, bare %v: %v, or wrong bytes", name, bare, p.ctr[1].State())
			}
		}
	}
}

// A WRITE that states more bytes than its packet has touches nothing.
func TestWriteLongerThanItsPacket(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fill(1, 0, 200, 7)
	f := p.forge(1).ops(wire.Op{Opcode: wire.OpWrite, Flags: last, Length: 100, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())})
	f.body = f.body[:len(f.body)-92]
	p.inject(1, f)
	p.runUntilIdle()
	if !p.all(1, 0, 200, 7) || p.ctr[1].State() != CtrLost {
		t.Errorf("%v: bytes were written", p.ctr[1].State())
	}
}

// The target memory of a Read is checked before the request leaves. If it is not writable, no packet leaves.
func TestReadIntoMemoryThatMayNotBeWritten(t *testing.T) {
	p := newPair(t, 1408).connect()
	sink, err := p.mem[0].Register(make([]byte, 64), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := p.read(0, 64)
	r.SGL = []SGE{{Addr: sink.Base(), Len: 64, Token: sink.Token()}}
	p.post(0, r)
	p.runUntilIdle()
	p.outcomes(0, OutcomeAccessViolation)
	if reads, _ := p.reg[1].RemoteAccesses(); reads != 0 {
		t.Errorf("the peer was read %d times", reads)
	}
}

// If a receive names memory that is not writable, the message is not stored.
func TestReceiveIntoReadOnlyMemory(t *testing.T) {
	p := newPair(t, 1408).connect()
	sink, err := p.mem[1].Register(make([]byte, 64), RightRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	_, o := p.qp[1].PostReceive(0, []SGE{{Addr: sink.Base(), Len: 64, Token: sink.Token()}}, 64)
	p.must(o)
	p.runUntilIdle()
	p.fill(0, 0, 10, 9)
	p.post(0, p.send(0, 10))
	p.runUntilIdle()
	p.outcomes(1, OutcomeAccessViolation)
	p.outcomes(0, OutcomeRemoteError)
	if sink.Bytes()[0] != 0 {
		t.Error("it was written")
	}
}

// Bytes in flight and bytes stored behind gaps are together at most the window that the peer stated, plus one packet.
func TestWindowOfThePeer(t *testing.T) {
	for _, most := range []int{1, 3000, 10000} {
		for _, lost := range []int{1, 1 << 30} {
			p := newPair(t, 1408).connect()
			p.conn(0).peerWindow = uint32(most)
			p.link[1].mangle = func(b []byte) bool { // the first byte is always lost, and now and then all packets are
				return !sequenced(b) || lost == 1 && (wire.BaseHeader(b).Message() != 0 || opcode(b) == wire.OpMore)
			}
			p.post(0, p.write(0, 0, 100000))
			p.runUntilIdle()
			c := p.conn(0)
			size := int(c.mtu.Packet)
			if n := c.traffic.sent.packets.InFlight() + c.traffic.sent.spaces[wire.RequestSpace].Beyond(); n < most || n >= most+size {
				t.Errorf("%d bytes under way or waiting, want %d", n, most)
			}
			if used := p.eng[1].store.Used(); used > (most/size+1)*2048 {
				t.Errorf("%d bytes of the peer are taken with a window of %d", used, most)
			}
			p.link[1].mangle = nil
			p.pass(10 * time.Second)
			p.outcomes(0, OutcomeSuccess)
		}
	}
}

// Packets that wait at the peer behind gaps of both spaces are together within its one window (PROTOCOL §9.4), because requests and
// answers share its memory.
func TestWindowOfThePeerOverBothSpaces(t *testing.T) {
	const most = 60000
	p := newPair(t, 1408).connect()
	p.conn(0).peerWindow = most
	lost := false
	p.link[1].mangle = func(b []byte) bool { // the first byte of both spaces is always lost
		first := sequenced(b) && wire.BaseHeader(b).Message() == 0 && wire.BaseHeader(b).Offset() == 0
		lost = lost || first
		return !first
	}
	p.post(1, &listed{SGL: p.sge(1, 0, 100000), Request: Request{Kind: KindRead, Length: 100000, Addr: p.reg[0].Base(), Token: p.reg[0].Token()}})
	p.post(0, p.write(0, 0, 100000))
	p.runUntilIdle()
	c := p.conn(0)
	requests, answers := c.traffic.sent.spaces[wire.RequestSpace].Beyond(), c.traffic.sent.spaces[wire.ResponseSpace].Beyond()
	if n := c.traffic.sent.packets.InFlight() + requests + answers; requests == 0 || answers == 0 || n < most || n >= most+int(c.mtu.Packet) {
		t.Errorf("%d bytes under way, and %d and %d waiting, want %d in all", c.traffic.sent.packets.InFlight(), requests, answers, most)
	}
	p.link[1].mangle = nil
	p.pass(10 * time.Second)
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	if !lost {
		t.Error("nothing was lost")
	}
}

// A queue holds exactly as many requests as it was made for, also if that is no power of two, and each request as many entries.
func TestQueuesTakeWhatTheyWereMadeFor(t *testing.T) {
	p := newPair(t, 1408)
	const depth = 5
	for side := range p.qp {
		p.qp[side] = p.eng[side].NewQP(QPConfig{
			ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: depth, InitiatorDepth: depth, MaxReceiveSGE: 2, MaxInitiatorSGE: 2,
		})
	}
	p.connect()
	for range depth {
		p.post(0, &listed{Request: Request{Kind: KindWrite}})
		p.receive(0, 0, 8)
	}
	if _, o := (&listed{Request: Request{Kind: KindWrite}}).post(p.qp[0]); o != OutcomeNoMoreEntries {
		t.Errorf("one request more: %v", o)
	}
	if _, o := p.qp[0].PostReceive(0, nil, 0); o != OutcomeNoMoreEntries {
		t.Errorf("one receive more: %v", o)
	}
	three := make([]SGE, 3)
	if _, o := (&listed{SGL: three, Request: Request{Kind: KindWrite}}).post(p.qp[1]); o != OutcomeDataOverrun {
		t.Errorf("one entry more: %v", o)
	}
	if _, o := p.qp[1].PostReceive(0, three, 0); o != OutcomeDataOverrun {
		t.Errorf("one entry of a receive more: %v", o)
	}
}
