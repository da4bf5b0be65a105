package provider

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Retransmission at another packet size: if the path MTU falls, lost contents are sent in smaller packets. Each byte is executed
// once, whatever the boundaries of the segments (PROTOCOL §4, §9.1).

// wide connects a pair whose packets have size bytes in both directions.
func wide(tb testing.TB, size int) *pair {
	p := newPair(tb, size).connect()
	p.transfer(200000)
	for side := range 2 {
		if got := int(p.conn(side).mtu.Packet); got != size {
			tb.Fatalf("packets of %d bytes", got)
		}
	}
	return p
}

// The path MTU falls while a full window with every operation is in flight in both directions. All data arrive unchanged, no memory
// stays in use, and later packets fit the path.
func TestShrinkUnderEveryOperation(t *testing.T) {
	for _, size := range []int{1472, 4000, 8972, 65507} {
		for _, to := range []int{wire.MinPacket, 1392} {
			p := wide(t, size)
			for side := range 2 {
				p.conn(side).leaveIdle()
				p.conn(side).traffic.sent.cc.Reset(&congestion.Fixed{Packets: FixedPackets}, int(p.conn(side).mtu.Packet))
				p.link[side].narrow = to
				p.pattern(1 << 20)
				copy(p.reg[1].Bytes(), p.reg[0].Bytes()[:1<<20])
			}
			each := uint32(min(size*200/12, 900000/6))
			for i := range uint32(6) {
				off := i * each
				for side := range 2 {
					p.receive(side, 2<<20+off, each)
					p.post(side, &listed{SGL: p.sge(side, off, each), Request: Request{Kind: KindSend, Length: each}})
					w := p.write(side, off, each)
					w.Addr += 1 << 20
					p.post(side, w)
					r := p.write(side, 3<<20+off, each)
					r.Kind, r.Addr = KindRead, p.reg[1-side].Base()+uint64(off)
					p.post(side, r)
				}
			}
			p.pass(20 * time.Second)
			for side := range 2 {
				rs := p.results(side)
				if len(rs) != 24 || slices.ContainsFunc(rs, func(r Result) bool { return r.Outcome != OutcomeSuccess }) {
					t.Fatalf("%d to %d: %d results: %+v", size, to, len(rs), rs)
				}
				all := p.reg[side].Bytes()
				for mib := 1; mib < 4; mib++ {
					if !bytes.Equal(all[mib<<20:][:6*each], all[:6*each]) {
						t.Errorf("%d to %d: side %d has wrong bytes in MiB %d", size, to, side, mib)
					}
				}
				s, used := p.eng[side].Stats(), p.eng[side].store.Used()
				if got := int(p.conn(side).mtu.Packet); got > to || s.Retransmits == 0 || used != 0 || p.eng[side].Violation() != "" {
					t.Errorf("%d to %d: packets of %d bytes, %d bytes wait, %q: %+v", size, to, got, used, p.eng[side].Violation(), s)
				}
			}
		}
	}
}

// bigWrite is the payload of a WRITE of 8000 bytes, none of them zero.
func bigWrite() (want []byte) {
	for i := range 8000 {
		want = append(want, byte(i*i>>5)|1)
	}
	return want
}

// cutting is a message that can be split into segments at many boundaries.
type cutting struct {
	p       *pair
	first   wire.Op
	place   space.Place
	payload []byte
	number  uint32 // packet number of the next segment's packet
}

// writeOf is a WRITE to side 1, ahead messages behind the next one.
func (p *pair) writeOf(ahead uint32, payload []byte) *cutting {
	next := p.conn(1).traffic.received.spaces[wire.RequestSpace].next
	return &cutting{
		p: p, place: next + space.At(ahead, 0), payload: payload, number: uint32(p.conn(1).traffic.received.numbers.Largest()) + 1000*ahead,
		first: wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()), Total: uint32(len(payload))},
	}
}

// piece makes a packet of the bytes from from to to of the message. With bare, the packet has no operation header.
func (m *cutting) piece(from, to int, bare bool) *forged {
	f := m.p.forge(1).at(wire.RequestSpace, m.place+space.Place(from))
	m.number++
	f.fields.Number = uint64(m.number)
	if from > 0 && bare {
		return f.piece(m.payload[from:to], to == len(m.payload))
	}
	op := wire.Op{Opcode: wire.OpMore, Length: uint16(to - from)}
	if from == 0 {
		op = m.first
		op.Length = uint16(to)
	}
	if to == len(m.payload) {
		op.Flags |= wire.OpLast
	}
	f.ops(op)
	copy(f.body[len(f.body)-(to-from):], m.payload[from:to])
	return f
}

// cut splits a message into segments of at most this many bytes.
func (m *cutting) cut(most int, bare bool) (all []*forged) {
	for from := 0; from < len(m.payload); from += most {
		all = append(all, m.piece(from, min(from+most, len(m.payload)), bare))
	}
	return all
}

// Segments with random boundaries overlap, and may arrive in any order and more than once. Their bytes are executed in order and
// once. The test overwrites executed bytes and checks that they stay overwritten.
func TestPiecesCutAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := newPair(t, 8972).connect()
		want := bigWrite()
		m := p.writeOf(0, want)
		mem := p.reg[1].Bytes()[:len(want)]
		next := func() int { // bytes of the message that were executed
			if at := p.conn(1).traffic.received.spaces[0].next; at.Message() == m.place.Message() {
				return int(at.Offset())
			}
			return len(want)
		}
		done := 0
		for done < len(want) {
			from := 8 * rng.IntN(len(want)/8)
			to := min(from+1+rng.IntN(3000), len(want))
			if rng.IntN(4) == 0 {
				from = min(done, 64*rng.IntN(done/64+1))
				to = min(done+1+rng.IntN(500), len(want))
			}
			p.inject(1, m.piece(from, to, rng.IntN(2) == 0))
			p.eng[1].Run(p.now)
			if now := next(); seed%2 == 0 && (!bytes.Equal(mem[done:now], want[done:now]) || !p.all(1, uint32(now), uint32(len(want)-now), 0)) {
				t.Fatalf("seed %d: wrong bytes when %d were carried out", seed, now)
			} else if !p.all(1, 0, uint32(done), 0) || !bytes.Equal(mem[done:now], want[done:now]) && seed%2 == 0 {
				t.Fatalf("seed %d: bytes before %d were carried out again", seed, done)
			} else if seed%2 == 0 {
				clear(mem[:now])
				done = now
			} else if now == len(want) { // early segments may be written again from a segment with other boundaries, but not once they were executed
				if !bytes.Equal(mem, want) {
					t.Fatalf("seed %d: wrong bytes", seed)
				}
				clear(mem)
				done = now
			} else {
				done = 0
			}
		}
		for _, f := range m.cut(1000, true) {
			p.inject(1, f)
			p.eng[1].Run(p.now)
		}
		if !p.all(1, 0, uint32(len(want)), 0) || p.eng[1].store.Used() != 0 || len(p.link[1].rxFree) != pipeFrames || p.qp[1].State() != QPReady {
			t.Fatalf("seed %d: carried out again, or %d bytes are left", seed, p.eng[1].store.Used())
		}
	}
}

// If a SEND is retransmitted in other segments, its receive completes once. Operations behind the SEND in a packet are executed
// once.
func TestRecutSendCompletesOnce(t *testing.T) {
	const n = 5000
	p := newPair(t, 8972).connect()
	p.receive(1, 1<<20, n)
	p.receive(1, 2<<20, n)
	p.runUntilIdle()
	m := p.writeOf(0, bytes.Repeat([]byte{7}, n))
	m.first = wire.Op{Opcode: wire.OpSendImm, Imm: 5, Total: n}
	whole := m.piece(0, n, false)
	whole.body = append(whole.body, make([]byte, -len(whole.body)&(wire.OpAlign-1))...)
	behind := p.forge(1).ops(wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Length: 8, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())})
	for i := range 8 {
		behind.body[len(behind.body)-8+i] = 9
	}
	whole.body = append(whole.body, behind.body...)
	for _, f := range m.cut(1200, true)[:3] {
		p.inject(1, f)
	}
	p.inject(1, m.piece(4000, n, true))
	p.eng[1].Run(p.now)
	p.outcomes(1)
	p.inject(1, whole) // the late original, of which 1,400 bytes and the operations behind them are missing
	p.eng[1].Run(p.now)
	if rs := p.outcomes(1, OutcomeSuccess); rs[0].Immediate != 5 || rs[0].Bytes != n || !p.all(1, 1<<20, n, 7) || !p.all(1, 0, 8, 9) {
		t.Errorf("%+v, or wrong bytes", rs)
	}
	p.fill(1, 0, 8, 1)
	p.fill(1, 1<<20, n, 1)
	p.inject(1, whole)
	for _, f := range m.cut(1200, false) {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	p.outcomes(1)
	if !p.all(1, 0, 8, 1) || !p.all(1, 1<<20, n, 1) || p.eng[1].store.Used() != 0 || p.qp[1].State() != QPReady {
		t.Error("carried out twice")
	}
}

// A message that is complete before the message in front of it waits, whether it arrived in one packet or in segments.
func TestPiecesAheadOfAGap(t *testing.T) {
	for _, firstInPieces := range []bool{false, true} {
		p := newPair(t, 8972).connect()
		one := bigWrite()
		two := bytes.Repeat([]byte{0x66}, 3000)
		first, second := p.writeOf(0, one), p.writeOf(1, two)
		for _, f := range second.cut(1200, true) {
			p.inject(1, f)
		}
		p.eng[1].Run(p.now)
		if p.conn(1).traffic.received.spaces[0].gaps.Len() != 3 || !p.all(1, 0, 8000, 0) {
			t.Fatal("written too early")
		}
		pieces := []*forged{first.piece(0, len(one), false)}
		if firstInPieces {
			pieces = first.cut(1200, true)
		}
		for _, f := range pieces {
			p.inject(1, f)
		}
		p.eng[1].Run(p.now)
		mem := p.reg[1].Bytes()
		if !bytes.Equal(mem[:3000], two) || !bytes.Equal(mem[3000:8000], one[3000:]) || p.conn(1).traffic.received.spaces[0].next != second.place.NextMessage() || p.eng[1].store.Used() != 0 {
			t.Errorf("in pieces %v: the second message was not carried out after the first", firstInPieces)
		}
	}
}

// If the original packet arrives after some segments of its retransmission, it is executed from the next byte on, and stored
// segments of it are freed.
func TestOriginalAfterItsPieces(t *testing.T) {
	for have := range 7 {
		p := newPair(t, 8972).connect()
		want := bigWrite()
		m := p.writeOf(0, want)
		whole, pieces := m.piece(0, len(want), false), m.cut(1200, true)
		for i, f := range pieces {
			if i != have {
				p.inject(1, f)
			}
		}
		p.eng[1].Run(p.now)
		before := p.eng[1].Stats().Drops[wire.DropDuplicate]
		p.inject(1, whole)
		p.eng[1].Run(p.now)
		if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) || p.conn(1).traffic.received.spaces[0].next != m.place.NextMessage() || p.eng[1].store.Used() != 0 {
			t.Errorf("without piece %d: not whole, %d bytes are left", have, p.eng[1].store.Used())
		}
		p.inject(1, pieces[have])
		p.inject(1, whole)
		p.eng[1].Run(p.now)
		waited := len(pieces) - 1 - have // stored segments, which the original brings again
		if n := p.eng[1].Stats().Drops[wire.DropDuplicate] - before; n != 2+uint64(waited) {
			t.Errorf("without piece %d: %d duplicates, want 2 and the %d that waited", have, n, waited)
		}
	}
}

// A flood of segments behind a gap uses a bounded share of the engine's memory, and segments in order are still executed.
func TestAttackFloodOfPieces(t *testing.T) {
	const limit = 64 << 10
	p := newTunedPair(t, 8972, 1, Config{HeldBytes: limit}).connect()
	want := bigWrite()
	for round := range 3 {
		for i := range uint32(300) {
			f := p.writeOf(1+i%100, want).piece(1+int(i)*8+round, 4000+int(i)*8, true)
			p.inject(1, f)
			p.eng[1].Run(p.now)
		}
		if used := p.eng[1].store.Used(); used == 0 || used > limit/2 {
			t.Fatalf("%d bytes of %d after round %d", used, limit, round)
		}
	}
	if p.eng[1].Stats().Drops[wire.DropHoldFull] < 300 {
		t.Errorf("%v", p.eng[1].Stats().Drops)
	}
	for _, f := range p.writeOf(0, want).cut(1200, true) {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) {
		t.Error("the next message was not carried out")
	}
	p.ctr[1].Close()
	p.pass(time.Minute)
	if used := p.eng[1].store.Used(); used != 0 || len(p.link[1].rxFree) != pipeFrames {
		t.Errorf("%d bytes outlive their connection", used)
	}
}

// Segments that arrive further apart than Config.IdleAfter still form the message: a connection must not become idle between two of
// them, or it would reject its peer's retransmissions.
func TestPiecesOutlastRest(t *testing.T) {
	for _, behind := range []bool{false, true} {
		p := newPair(t, 8972).connect()
		p.eng[1].cfg.IdleAfter = 50 * time.Microsecond
		want := bigWrite()
		pieces := p.writeOf(0, want).cut(2000, true)
		if behind {
			slices.Reverse(pieces)
		}
		for _, f := range pieces {
			p.inject(1, f)
			p.pass(recovery.MaxRTO)
		}
		if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) {
			t.Error("not put together")
		}
		p.pass(time.Second)
		if p.conn(1).traffic != nil {
			t.Error("not idle after the message")
		}
	}
}

// A gap that is not filled for Config.DeadPeer ends the connection and frees its memory. A gap that shrinks does not.
func TestGapThatIsNeverFilled(t *testing.T) {
	p := newPair(t, 8972).connect()
	want := bigWrite()
	m := p.writeOf(0, want)
	pieces := m.cut(1000, true)
	p.inject(1, pieces[7])
	for i, f := range pieces[:5] {
		p.inject(1, f)
		if i > 0 {
			p.inject(1, m.piece(6000+i, 7000, true)) // more packets behind the gap do not fill it
		}
		p.pass(p.eng[1].cfg.DeadPeer / 4)
	}
	if p.qp[1].State() != QPReady || p.eng[1].store.Used() == 0 {
		t.Fatalf("%v before the time", p.qp[1].State())
	}
	p.pass(2 * p.eng[1].cfg.DeadPeer)
	if p.qp[1].State() != QPError || p.eng[1].store.Used() != 0 {
		t.Errorf("%v, %d bytes wait", p.qp[1].State(), p.eng[1].store.Used())
	}
}

// Each retransmission of a READ answer looks the memory up again. If the memory is gone, TERM replaces the rest of the answer. If
// it has changed, the new contents arrive.
func TestRecutReadResponses(t *testing.T) {
	for _, gone := range []bool{false, true} {
		p := wide(t, 8972)
		r, _ := p.mem[1].Register(make([]byte, 8000), RightRemoteRead)
		req := p.read(0, 8000)
		req.Addr, req.Token = r.Base(), r.Token()
		p.link[0].narrow = 1472
		count := 0
		p.link[0].mangle = func(b []byte) bool { // the third segment is lost the first time
			if sequenced(b) {
				if count++; count == 3 {
					for i := range r.Bytes() {
						r.Bytes()[i] = 7
					}
					if gone {
						p.mem[1].Deregister(r)
					}
					return false
				}
			}
			return true
		}
		p.post(0, req)
		p.pass(10 * time.Second)
		if gone {
			p.outcomes(0, OutcomeReadRefused)
			if p.conn(1) != nil || count < 3 {
				t.Errorf("the connection is still there after %d pieces", count)
			}
			continue
		}
		p.outcomes(0, OutcomeSuccess)
		got := p.reg[0].Bytes()[:8000]
		if bytes.Count(got, []byte{7})+bytes.Count(got, []byte{0}) != 8000 || !bytes.Contains(got, []byte{7}) || !bytes.Contains(got, []byte{0}) {
			t.Error("neither old nor new contents")
		}
	}
}

// With few transmit frames, a retransmission in smaller packets needs several polls, and no segment is forgotten.
func TestRecutWithFewFrames(t *testing.T) {
	p := wide(t, 65507)
	p.link[1].narrow = wire.MinPacket
	keep := p.link[0].txFree[:20:20]
	p.link[0].txFree = append([]uint64(nil), keep...)
	p.eng[0].out = packet.NewOut(p.link[0])
	for i := range 3 {
		p.transfer(100000 + uint32(i))
	}
	if s := p.eng[0].Stats(); s.NoFrames == 0 || s.Retransmits == 0 || s.Retransmits > 20*65507/wire.MinPacket {
		t.Errorf("%+v", s)
	}
}

// Retransmitted segments have the bytes that were sent first, of the same messages, whatever operations the packets had.
func TestRecutBytesAreTheOriginal(t *testing.T) {
	for _, n := range []uint32{1300, 2000, 4096, 5000, 8900} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := wide(t, 8972)
			w := newByPlace(t)
			for sp := range w.next {
				w.next[sp] = p.conn(0).requestNumbers.nextMessage
			}
			largest := 0
			p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
				var b []byte
				for i := range tx.N {
					b = append(b, tx.Frags[i].Data...)
				}
				if sequenced(b) {
					largest = max(largest, len(b))
					w.packet(b)
				}
				return false, len(b) <= 1472
			}
			p.pattern(200000)
			for i := range uint32(3) { // several operations, the last of which continues in the next packet
				p.post(0, p.write(0, i*10000, n/4))
			}
			p.post(0, p.write(0, 50000, 3*n))
			p.pass(5 * time.Second)
			p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
			if largest <= 1472 && n > 1400 || n > 1400 && w.again == 0 || len(w.ends[0]) != 4 {
				t.Errorf("packets of %d bytes, %d bytes were retransmitted of %d messages", largest, w.again, len(w.ends[0]))
			}
			if !bytes.Equal(p.reg[1].Bytes()[50000:][:3*n], p.reg[0].Bytes()[50000:][:3*n]) {
				t.Error("wrong bytes")
			}
		})
	}
}
