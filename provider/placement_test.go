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
	p.post(0, p.write(0, 8192, 1000))
	p.post(0, p.write(0, 0, 1100))
	p.post(0, p.send(0, 5000))
	p.post(0, p.read(1<<16, 10))
	p.runUntilIdle()
	if free := len(p.link[1].rxFree); free != pipeFrames {
		t.Errorf("%d of %d frames are free", free, pipeFrames)
	}
	if !p.all(1, 0, 1100, 7) || !p.all(1, 1<<20, 1000, 7) || !p.all(1, 8192, 1000, 0) {
		t.Error("what came was not placed")
	}
	if s := &p.conn(1).served; s.Next() != 0 || !p.cq[1].Empty() {
		t.Error("something was carried out before its turn")
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(1, OutcomeSuccess)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	if !p.all(1, 1<<20, 5000, 7) {
		t.Error("bytes are missing")
	}
}

// Of a message that is being received, what comes behind a gap is placed at once: its first piece said where.
func TestRestOfAMessageIsPlacedAtOnce(t *testing.T) {
	for _, kind := range []RequestKind{KindWrite, KindSend, KindRead} {
		p := newTunedPair(t, 1408, 1, Config{ImmediatePlacement: true}).connect()
		p.receive(1, 0, 8000)
		p.runUntilIdle()
		from, to := 0, 1
		if kind == KindRead {
			from, to = 1, 0
		}
		n, lost := 0, 0
		p.link[to].mangle = func(b []byte) bool {
			if sequenced(b) {
				if n++; n == 3 {
					lost = int(wire.BaseHeader(b).Offset())
				}
			}
			return !sequenced(b) || n != 3
		}
		p.fill(from, 0, 8000, 7)
		r := p.write(0, 0, 8000)
		r.Kind = kind
		p.post(0, r)
		p.runUntilIdle()
		gap := uint32(lost)
		if lost == 0 || !p.all(to, 0, gap, 7) || !p.all(to, gap, 1000, 0) || !p.all(to, gap+1408, 8000-gap-1408, 7) || !p.cq[to].Empty() {
			t.Errorf("kind %d: what came was not placed", kind)
		}
		p.pass(50 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if !p.all(to, 0, 8000, 7) {
			t.Errorf("kind %d: bytes are missing", kind)
		}
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
	for name, change := range map[string]func(p *pair) *listed{
		"token":    func(p *pair) *listed { r := p.write(0, 0, 10); r.Token ^= 1; return r },
		"too long": func(p *pair) *listed { return p.send(0, 11) },
		"no right": func(p *pair) *listed {
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
		if s := p.eng[1].Stats(); s.Connections != 0 || p.eng[1].store.Used() != 0 || len(p.link[1].rxFree) != pipeFrames {
			t.Errorf("%s: something is left", name)
		}
	}
}

// The right to write is that of the moment when the bytes come: a window that is invalidated behind the gap takes what came before.
func TestPlacedBeforeTheWindowEnds(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{ImmediatePlacement: true}).connect()
	w := p.grant(4096, FlagAllowWrite)
	p.fill(0, 0, 4000, 1)
	n, lost, behind := 0, uint32(0), uint32(0)
	p.link[1].mangle = func(b []byte) bool { // the second packet is lost
		if sequenced(b) {
			switch n++; n {
			case 2:
				lost = wire.BaseHeader(b).Offset()
			case 3:
				behind = wire.BaseHeader(b).Offset()
			}
		}
		return !sequenced(b) || n != 2
	}
	p.post(0, p.through(w, 0, 3000))
	p.runUntilIdle()
	p.invalidate(w)
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeAccessViolation) // for the lost piece
	if lost == 0 || behind == 0 || !p.all(1, 0, lost, 1) || !p.all(1, lost, behind-lost, 0) || !p.all(1, behind, 3000-behind, 1) {
		t.Error("wrong bytes")
	}
}

// What has to be kept is bounded, whatever it carries: beyond it packets are dropped and come again.
func TestPlacementIsBounded(t *testing.T) {
	for _, kind := range []RequestKind{KindSend, KindWrite} {
		p := newTunedPair(t, 1408, 1, Config{ImmediatePlacement: true, HeldBytes: 3 * 2048}).connect()
		p.receive(1, 1<<20, 30000)
		p.runUntilIdle()
		lost := false
		p.link[1].mangle = func(b []byte) bool {
			if sequenced(b) && !lost {
				lost = true
				return false
			}
			return true
		}
		p.conn(0).peerWindow = 1 << 20 // more than there is room for
		r := p.write(0, 0, 30000)
		r.Kind = kind
		p.post(0, r)
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if p.eng[1].Stats().Drops[wire.DropHoldFull] == 0 {
			t.Errorf("kind %d: nothing was beyond the bound", kind)
		}
		if used := p.eng[1].store.Used(); used != 0 {
			t.Errorf("kind %d: %d bytes are missing", kind, used)
		}
	}
}
