package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Packets that are placed before their turn. That they are, under all kinds of loss: the tests of order.

// immediate is a connected pair that places at once, whose first packet to side 1 with operations is lost.
func immediate(tb testing.TB) *pair {
	p := newTunedPair(tb, 1408, 1, Config{ImmediatePlacement: true}).connect()
	lost := false
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) && !lost {
			lost = true
			return false
		}
		return true
	}
	return p
}

func TestPlacedAtOnceAndDeliveredInOrder(t *testing.T) {
	p := immediate(t)
	p.receive(1, 1<<20, 5000)
	p.runUntilIdle()
	p.fill(0, 0, 5000, 7)
	p.post(0, p.write(0, 8192, 1300))
	p.post(0, p.write(0, 0, 1300))
	p.post(0, p.send(0, 5000))
	p.post(0, p.read(1<<16, 10))
	p.runUntilIdle()
	if _, held := p.eng[1].FramesHeld(); held != 0 || len(p.link[1].rxFree) != pipeFrames {
		t.Errorf("%d frames are kept, %d of %d are free", held, len(p.link[1].rxFree), pipeFrames)
	}
	if !p.all(1, 0, 1300, 7) || !p.all(1, 1<<20, 3000, 7) {
		t.Error("what came was not placed")
	}
	if s := &p.conn(1).served; s.tail != 0 || !p.cq[1].Empty() {
		t.Error("something was carried out before its turn")
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(1, OutcomeSuccess)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	if !p.all(1, 1<<20, 5000, 7) {
		t.Error("bytes are missing")
	}
}

// Answers to READs too.
func TestAnswersArePlacedAtOnce(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{ImmediatePlacement: true}).connect()
	p.fill(1, 0, 5000, 3)
	p.loseFirst(0, 1, wire.OpReadResp)
	p.post(0, p.read(0, 2500))
	p.post(0, p.read(3000, 2000))
	p.runUntilIdle()
	if !p.all(0, 3000, 2000, 3) || !p.all(0, 0, 1000, 0) || !p.cq[0].Empty() {
		t.Error("the second answer is not there, or the first one is")
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if !p.all(0, 0, 2500, 3) {
		t.Error("bytes are missing")
	}
}

// A packet is never placed twice once it counts as arrived, whether its turn has come or not.
func TestDuplicatesAreNotPlacedAgain(t *testing.T) {
	p := immediate(t)
	var copies [][]byte
	first := p.link[1].mangle
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) {
			copies = append(copies, append([]byte(nil), b...))
		}
		return first(b)
	}
	again := func(b []byte) {
		tx := &TxPacket{N: 1, Len: len(b)}
		tx.Frags[0].Data = b
		p.link[1].mangle = nil
		p.link[1].deliver(tx, p.conn(1).remote, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort})
		p.runUntilIdle()
	}
	p.fill(0, 0, 3000, 1)
	p.post(0, p.write(0, 0, 3000))
	p.runUntilIdle()
	p.fill(1, 1400, 1600, 9)
	again(copies[1])
	if !p.all(1, 1400, 1300, 9) {
		t.Error("placed twice before its turn")
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	p.fill(1, 0, 3000, 9)
	again(copies[1])
	again(copies[0])
	if !p.all(1, 0, 3000, 9) {
		t.Error("placed twice after its turn")
	}
}

// What is wrong with a packet shows when its turn comes; the others in it are not placed before.
func TestErrorsWaitForTheirTurn(t *testing.T) {
	for name, change := range map[string]func(p *pair) *Request{
		"token":    func(p *pair) *Request { r := p.write(0, 0, 10); r.Token ^= 1; return r },
		"too long": func(p *pair) *Request { return p.send(0, 11) },
		"no right": func(p *pair) *Request {
			r := p.write(0, 0, 10)
			r.Token = p.window(1).Token()
			return r
		},
	} {
		p := immediate(t)
		p.receive(1, 1<<20, 10)
		p.runUntilIdle()
		p.fill(0, 0, 2000, 1)
		p.post(0, p.write(0, 8192, 1300)) // lost
		p.eng[0].Run(p.now)
		p.post(0, p.write(0, 0, 10))
		p.post(0, change(p))
		p.runUntilIdle()
		if p.qp[1].State() != QPReady || !p.all(1, 0, 10, 0) {
			t.Errorf("%s: %v before its turn", name, p.qp[1].State())
		}
		p.pass(50 * time.Millisecond)
		if rs := p.results(0); len(rs) != 3 || rs[0].Outcome != OutcomeSuccess || rs[1].Outcome != OutcomeSuccess || rs[2].Outcome == OutcomeSuccess {
			t.Errorf("%s: %+v", name, rs)
		}
		if !p.all(1, 0, 10, 1) || p.ctr[1].State() != CtrLost {
			t.Errorf("%s: what was before the error is missing", name)
		}
		p.pass(20 * time.Second)
		if s := p.eng[1].Stats(); s.Connections != 0 || p.eng[1].received.waiting() != 0 || len(p.link[1].rxFree) != pipeFrames {
			t.Errorf("%s: something is left", name)
		}
	}
}

// The right to write is that of the moment when the bytes come: a window that is invalidated behind the gap takes what came before.
func TestPlacedBeforeTheWindowEnds(t *testing.T) {
	p := immediate(t)
	w := p.grant(4096, FlagAllowWrite)
	p.fill(0, 0, 4000, 1)
	p.post(0, p.through(w, 0, 3000))
	p.runUntilIdle()
	p.invalidate(w)
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeAccessViolation) // for the lost piece
	if p.all(1, 0, 1, 1) || !p.all(1, 1408, 1000, 1) {
		t.Error("wrong bytes")
	}
}

// What has to be kept is bounded: beyond it packets are dropped and come again. A packet of WRITEs needs nothing.
func TestPlacementIsBounded(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{ImmediatePlacement: true, HeldPackets: 3}).connect()
	p.receive(1, 1<<20, 30000)
	p.runUntilIdle()
	for _, r := range []*Request{p.send(0, 30000), p.write(0, 0, 30000)} {
		lost := false
		p.link[1].mangle = func(b []byte) bool {
			if sequenced(b) && !lost {
				lost = true
				return false
			}
			return true
		}
		before := p.eng[1].Stats().Drops[wire.DropHoldFull]
		p.post(0, r)
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if full := p.eng[1].Stats().Drops[wire.DropHoldFull] > before; full != (r.Kind == KindSend) {
			t.Errorf("kind %d: beyond the bound: %v", r.Kind, full)
		}
	}
	p.outcomes(1, OutcomeSuccess)
	if p.eng[1].received.waiting() != 0 {
		t.Error("places are missing")
	}
}
