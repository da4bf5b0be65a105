package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Pieces of messages that are intact, one by one, and do not make a message together: the peer is broken or hostile, and no request may
// succeed by them.

// inOrder injects packets of one operation each, next in their space at side, as its peer would send them.
func (p *pair) inOrder(side int, space wire.Space, payload int, ops []wire.Op) {
	c := p.conn(side)
	psn := c.rx[space].next
	for i := range ops {
		f := p.forge(side)
		f.body = make([]byte, wire.OpHeaderLen+payload)
		wire.PutOp(f.body, &ops[i])
		f.fields.PSN = psn
		if space == wire.ResponseSpace {
			f.fields.Flags |= wire.FlagSpace
		}
		psn++
		p.inject(side, f)
		p.eng[side].Run(p.now)
	}
	p.runUntilIdle()
}

const (
	first = wire.OpFirst
	last  = wire.OpLast
	whole = first | last
)

func TestPiecesThatMakeNoSend(t *testing.T) {
	send := func(flags wire.OpFlags, number, offset, total uint32) wire.Op {
		return wire.Op{Opcode: wire.OpSend, Flags: flags, Length: 8, Number: number, Offset: offset, Total: total}
	}
	for name, ops := range map[string][]wire.Op{
		"ends before its total": {send(whole, 0, 0, 16)},
		"another number":        {send(whole, 1, 0, 8)},
		"begins in the middle":  {send(last, 0, 8, 16)},
		"one piece twice":       {send(first, 0, 0, 16), send(last, 0, 0, 16)},
		"a piece is missing":    {send(first, 0, 0, 24), send(last, 0, 16, 24)},
	} {
		p := newPair(t, 1408).connect()
		p.receive(1, 0, 64)
		p.inOrder(1, wire.RequestSpace, 8, ops)
		if rs := p.results(1); len(rs) != 1 || rs[0].Outcome != OutcomeCanceled || p.qp[1].State() != QPError || p.ctr[1].State() != CtrLost {
			t.Errorf("%s: %+v, %v, %v", name, rs, p.qp[1].State(), p.ctr[1].State())
		}
	}
}

func TestPiecesThatAnswerNoRead(t *testing.T) {
	answer := func(flags wire.OpFlags, number, offset, total uint32) wire.Op {
		return wire.Op{Opcode: wire.OpReadResp, Flags: flags, Length: 8, Number: number, Offset: offset, Total: total}
	}
	for name, ops := range map[string][]wire.Op{
		"of another Read":         {answer(first, 1, 0, 16)},
		"begins in the middle":    {answer(last, 0, 8, 16)},
		"shorter than the Read":   {answer(whole, 0, 0, 8)},
		"longer than the Read":    {answer(first, 0, 0, 24)},
		"ends before its total":   {answer(whole, 0, 0, 16)},
		"does not end at its end": {answer(first, 0, 0, 16), answer(0, 0, 8, 16)},
		"one piece twice":         {answer(first, 0, 0, 16), answer(last, 0, 0, 16)},
	} {
		p := newPair(t, 1408).connect()
		p.link[1].mangle = func([]byte) bool { return false } // the peer does not know of the Read, and does not answer
		p.post(0, p.read(0, 16))
		p.runUntilIdle()
		p.inOrder(0, wire.ResponseSpace, 8, ops)
		if rs := p.results(0); len(rs) != 1 || rs[0].Outcome != OutcomeCanceled || p.ctr[0].State() != CtrLost {
			t.Errorf("%s: %+v, %v", name, rs, p.ctr[0].State())
		}
	}
}

// A WRITE that names more bytes than its packet has touches nothing.
func TestWriteLongerThanItsPacket(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fill(1, 0, 200, 7)
	p.inOrder(1, wire.RequestSpace, 8, []wire.Op{{
		Opcode: wire.OpWrite, Flags: whole, Length: 100, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()),
	}})
	if !p.all(1, 0, 200, 7) || p.ctr[1].State() != CtrLost {
		t.Errorf("%v: bytes were written", p.ctr[1].State())
	}
}

// The sink of a Read is looked at before the peer is asked: nothing leaves for one that may not be written.
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

// A receive names memory that may not be written: the message is not placed.
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

// No more packets are under way than the peer said it would hold.
func TestWindowOfThePeer(t *testing.T) {
	for _, most := range []uint32{1, 3, 8} {
		p := newPair(t, 1408).connect()
		p.conn(0).peerWindow = most
		p.link[1].mangle = func([]byte) bool { return false }
		p.post(0, p.write(0, 0, 100000))
		p.runUntilIdle()
		if n := p.conn(0).tx[wire.RequestSpace].outstanding(); n != most {
			t.Errorf("%d packets under way, want %d", n, most)
		}
		p.link[1].mangle = nil
		p.pass(10 * time.Second)
		p.outcomes(0, OutcomeSuccess)
	}
}

// A queue takes as many requests as it was made for, which need be no power of two, and as many entries a request.
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
		p.post(0, &Request{Kind: KindWrite})
		p.receive(0, 0, 8)
	}
	if _, o := p.qp[0].Post(&Request{Kind: KindWrite}); o != OutcomeNoMoreEntries {
		t.Errorf("one request more: %v", o)
	}
	if _, o := p.qp[0].PostReceive(0, nil, 0); o != OutcomeNoMoreEntries {
		t.Errorf("one receive more: %v", o)
	}
	three := make([]SGE, 3)
	if _, o := p.qp[1].Post(&Request{Kind: KindWrite, SGL: three}); o != OutcomeDataOverrun {
		t.Errorf("one entry more: %v", o)
	}
	if _, o := p.qp[1].PostReceive(0, three, 0); o != OutcomeDataOverrun {
		t.Errorf("one entry of a receive more: %v", o)
	}
}
