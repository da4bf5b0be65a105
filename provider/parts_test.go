package provider

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/wire"
)

// Packets in parts (PROTOCOL §4.1).

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

// inParts counts the packets of which side has some parts.
func (p *pair) inParts(side int) (n int) {
	for i := range p.eng[side].assemblies {
		if c := p.eng[side].assemblies[i].conn; c != nil {
			n++
			if c.assembling == 0 {
				p.tb.Error("an assembly that its connection does not count")
			}
		}
	}
	return n
}

// A path that shrinks with a window full of every operation on it, in both directions, loses nothing and changes nothing: the
// packets go out again in parts, with the PSNs they had.
func TestShrinkUnderEveryOperation(t *testing.T) {
	for _, size := range []int{1472, 4000, 8972, 65507} {
		for _, to := range []int{wire.MinPacket, 1392} {
			p := wide(t, size)
			for side := range 2 {
				p.conn(side).leaveIdle()
				p.conn(side).cc.Reset(&congestion.Fixed{Packets: Window}, int(p.conn(side).mtu.Packet))
				p.link[side].narrow = to
				p.pattern(1 << 20)
				copy(p.reg[1].Bytes(), p.reg[0].Bytes()[:1<<20])
			}
			each := uint32(min(size*200/12, 900000/6))
			for i := range uint32(6) {
				off := i * each
				for side := range 2 {
					p.receive(side, 2<<20+off, each)
					p.post(side, &Request{Kind: KindSend, SGL: p.sge(side, off, each), Length: each})
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
				if s := p.eng[side].Stats(); s.Reassembled == 0 || s.Drops[wire.DropPart] != 0 || p.inParts(side) != 0 {
					t.Errorf("%d to %d: %+v", size, to, s)
				}
			}
		}
	}
}

// Parts may come in any order and more than once, each from a packet of its own.
func TestPartsInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 30 {
		p := newPair(t, 8972).connect()
		whole, want := p.bigWrite(8000)
		parts := whole.cut(1392)
		order := append(rng.Perm(len(parts)), rng.Perm(len(parts))...)
		for _, i := range order {
			p.inject(1, parts[i])
			p.eng[1].Run(p.now)
		}
		if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) {
			t.Fatalf("order %v: wrong bytes", order)
		}
		s := p.eng[1].Stats()
		if s.Reassembled != 1 || s.PartsIn != uint64(2*len(parts)) || s.Drops[wire.DropDuplicate] != uint64(len(parts)) {
			t.Errorf("order %v: %+v", order, s)
		}
		if p.conn(1).rx[0].next != whole.fields.PSN+1 || p.inParts(1) != 0 || len(p.link[1].rxFree) != pipeFrames {
			t.Errorf("order %v: something is left", order)
		}
	}
}

// bigWrite forges a WRITE of n bytes to side 1 and returns it with what it writes.
func (p *pair) bigWrite(n int) (f *forged, want []byte) {
	for i := range n {
		want = append(want, byte(i*i>>5))
	}
	op := wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())}
	return p.forge(1).aim(op, want), want
}

// cut makes the parts of a forged packet for a path of so many bytes.
func (f *forged) cut(limit int) (parts []*forged) {
	part := wire.Part{Count: uint8(wire.PartsOf(len(f.body), limit)), Total: uint16(len(f.body))}
	for i := range part.Count {
		part.Index = i
		from, to := part.Range()
		g := *f
		g.fields.Flags |= wire.FlagExt
		g.body = append(part.Append(nil), f.body[from:to]...)
		parts = append(parts, &g)
	}
	return parts
}

// A packet that is complete before the one in front of it waits for that one, whether it comes whole or in parts.
func TestPartsAheadOfAGap(t *testing.T) {
	for _, firstInParts := range []bool{false, true} {
		p := newPair(t, 8972).connect()
		first, _ := p.bigWrite(8000)
		second, want := p.bigWrite(3000)
		second.fields.PSN++
		for i := range want {
			want[i] ^= 0xff
		}
		second.aim(wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token())}, want)
		for _, f := range second.cut(1200) {
			p.inject(1, f)
		}
		p.eng[1].Run(p.now)
		if p.inParts(1) != 1 || !p.all(1, 0, 100, 0) {
			t.Fatal("written before its turn")
		}
		if firstInParts {
			for _, f := range first.cut(1200) {
				p.inject(1, f)
			}
		} else {
			p.inject(1, first)
		}
		p.eng[1].Run(p.now)
		if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) || p.conn(1).rx[0].next != second.fields.PSN+1 || p.inParts(1) != 0 {
			t.Errorf("in parts %v: the second packet was not executed after the first", firstInParts)
		}
	}
}

// A whole packet makes its parts worthless, and they it, when they come too late.
func TestWholePacketAfterSomeParts(t *testing.T) {
	p := newPair(t, 8972).connect()
	whole, want := p.bigWrite(8000)
	parts := whole.cut(1200)
	for _, f := range parts[1:] {
		p.inject(1, f)
	}
	p.inject(1, whole)
	p.inject(1, parts[0])
	p.eng[1].Run(p.now)
	s := p.eng[1].Stats()
	if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) || s.Reassembled != 0 || p.inParts(1) != 0 || s.Drops[wire.DropDuplicate] != 1 {
		t.Errorf("%d left: %+v", p.inParts(1), s)
	}
}

// Parts that cannot be: each is counted, and the packet they pretend to belong to arrives all the same. Parts that were cut
// in another way replace those before; nothing of a packet is executed before all of it is there.
func TestAttackParts(t *testing.T) {
	p := newPair(t, 8972).connect()
	whole, want := p.bigWrite(8000)
	parts := whole.cut(1200)
	hostile := func(change func(f *forged)) {
		g := *parts[0]
		g.body = append([]byte(nil), g.body...)
		change(&g)
		p.inject(1, &g)
		p.eng[1].Run(p.now)
	}
	for _, f := range parts[1:] {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	bad := []func(f *forged){
		func(f *forged) { f.body[1] = 200 },                       // index out of range
		func(f *forged) { f.body[2] = 0 },                         // no parts
		func(f *forged) { f.body[2] = 1 },                         // one part
		func(f *forged) { f.body[2] = 65 },                        // too many
		func(f *forged) { f.body = f.body[:len(f.body)-1] },       // shorter than its place
		func(f *forged) { f.body = append(f.body, 0) },            // longer: it would overlap
		func(f *forged) { f.body[4], f.body[5] = 0xff, 0xff },     // larger than any packet
		func(f *forged) { f.body[4], f.body[5] = 0, 0 },           // of nothing
		func(f *forged) { f.body = f.body[:wire.PartLen] },        // without bytes
		func(f *forged) { f.body[1] = uint8(len(parts)) },         // one more than there are
		func(f *forged) { f.body[2], f.body[1] = f.body[2]+1, 0 }, // another count: the bytes do not fit
	}
	for i, change := range bad {
		hostile(change)
		if got := p.eng[1].Stats().Drops[wire.DropPart]; got != uint64(i+1) {
			t.Fatalf("hostile part %d: %d counted", i, got)
		}
	}
	hostile(func(f *forged) { f.body[0] = 9 })
	hostile(func(f *forged) { f.body[3] = 9 })
	hostile(func(f *forged) { f.body = f.body[:4] })
	hostile(func(f *forged) { f.fields.PSN += Window })
	d := p.eng[1].Stats().Drops
	if d[wire.DropReserved] != 2 || d[wire.DropShort] != 1 || d[wire.DropWindow] != 1 {
		t.Errorf("%v", d)
	}
	if p.inParts(1) != 1 || !p.all(1, 0, 8000, 0) {
		t.Error("something was written")
	}
	p.inject(1, whole.cut(4000)[0]) // cut in another way: everything begins again
	for _, f := range parts {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	s := p.eng[1].Stats()
	if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) || s.PartsForgotten != 2 || len(p.link[1].rxFree) != pipeFrames || p.qp[1].State() != QPReady {
		t.Errorf("the packet did not survive: %+v", s)
	}
}

// Parts whose sum is nonsense end the connection like a whole packet that is nonsense.
func TestPartsOfNonsense(t *testing.T) {
	p := newPair(t, 8972).connect()
	f := p.forge(1)
	f.body = bytes.Repeat([]byte{0xff}, 5000)
	for _, g := range f.cut(1200) {
		p.inject(1, g)
	}
	p.runUntilIdle()
	if p.ctr[1].State() != CtrLost || p.eng[1].Stats().Drops[wire.DropOpcode] != 1 {
		t.Errorf("%v, %v", p.ctr[1].State(), p.eng[1].Stats().Drops)
	}
}

// A flood of first parts takes a bounded number of places, and what is next in line on another connection keeps its own.
func TestAttackPartFlood(t *testing.T) {
	p := newPair(t, 8972).connect()
	whole, want := p.bigWrite(8000)
	parts := whole.cut(1200)
	p.inject(1, parts[0])
	p.eng[1].Run(p.now)
	for round := range 3 {
		for psn := range wire.PSN(Window - 1) {
			g := *parts[0]
			g.fields.PSN += 1 + psn
			p.inject(1, &g)
			p.eng[1].Run(p.now)
		}
		if n := p.inParts(1); n > maxAssemblies {
			t.Fatalf("%d packets in parts after round %d", n, round)
		}
	}
	for _, f := range parts[1:] {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	s := p.eng[1].Stats()
	if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) || s.Reassembled != 1 || s.PartsForgotten == 0 {
		t.Errorf("the next packet lost its place: %+v", s)
	}
	p.ctr[1].Close()
	p.runUntilIdle()
	for i := range p.eng[1].assemblies {
		if p.eng[1].assemblies[i].conn != nil {
			t.Fatal("parts outlive their connection")
		}
	}
}

// Parts that arrive further apart than Config.IdleAfter still become the packet. Simulation, seed 59217: a connection that
// became idle between any two parts took none of its peer's repetitions, until the peer gave the request up.
func TestPartsOutlastRest(t *testing.T) {
	p := newPair(t, 8972).connect()
	p.eng[1].cfg.IdleAfter = 50 * time.Microsecond
	whole, want := p.bigWrite(8000)
	for _, part := range whole.cut(1392) {
		p.inject(1, part)
		p.pass(maxRTO)
	}
	if s := p.eng[1].Stats(); s.Reassembled != 1 || s.PartsForgotten != 0 || !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) {
		t.Errorf("not put together: %+v", s)
	}
	p.pass(time.Second)
	if p.conn(1).traffic != nil {
		t.Error("not idle after the packet")
	}
}

// An idle connection forgets parts, and takes the packet when it comes again.
func TestPartsAndRest(t *testing.T) {
	p := newPair(t, 8972).connect()
	whole, want := p.bigWrite(8000)
	parts := whole.cut(1200)
	p.inject(1, parts[0])
	p.pass(5 * time.Second)
	if p.conn(1).traffic != nil || p.inParts(1) != 0 {
		t.Fatal("parts keep the connection from becoming idle")
	}
	for _, f := range parts {
		p.inject(1, f)
	}
	p.eng[1].Run(p.now)
	if !bytes.Equal(p.reg[1].Bytes()[:len(want)], want) {
		t.Error("wrong bytes")
	}
}

// Memory that a READ reads is looked up again for every repetition: when it is gone, the parts stop and the TERM takes their
// PSN; when it has changed, its new contents arrive.
func TestPartsOfReadResponses(t *testing.T) {
	for _, gone := range []bool{false, true} {
		p := wide(t, 8972)
		r, _ := p.mem[1].Register(make([]byte, 8000), RightRemoteRead)
		req := p.read(0, 8000)
		req.Addr, req.Token = r.Base(), r.Token()
		p.link[0].narrow = 1472
		count := 0
		p.link[0].mangle = func(b []byte) bool { // the last part is lost the first time
			if sequenced(b) && wire.BaseHeader(b[:wire.BaseHeaderLen]).Flags()&wire.FlagExt != 0 {
				count++
				if count == 3 {
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
				t.Errorf("the connection is still there after %d parts", count)
			}
			continue
		}
		p.outcomes(0, OutcomeSuccess)
		got := p.reg[0].Bytes()[:8000]
		if bytes.Count(got, []byte{7})+bytes.Count(got, []byte{0}) != 8000 || !bytes.Contains(got, []byte{7}) {
			t.Error("neither old nor new contents")
		}
	}
}

// With few transmit frames the parts of a packet leave in several turns, none is forgotten.
func TestPartsWithFewFrames(t *testing.T) {
	p := wide(t, 65507)
	p.link[1].narrow = wire.MinPacket
	keep := p.link[0].txFree[:20:20]
	p.link[0].txFree = append([]uint64(nil), keep...)
	p.eng[0].frames = p.eng[0].frames[:0]
	for i := range 3 {
		p.transfer(100000 + uint32(i))
	}
	if s := p.eng[0].Stats(); s.NoFrames == 0 || s.PartsOut == 0 || s.PartsOut > 20*uint64(wire.MaxParts) {
		t.Errorf("%+v", s)
	}
}

// The parts that leave are those of the packet that was sent first, byte for byte, whatever is in it.
func TestPartsAreTheOriginal(t *testing.T) {
	for _, n := range []uint32{1300, 2000, 4096, 5000, 8900} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := wide(t, 8972)
			var original []byte
			got := map[uint8][]byte{}
			p.link[1].mangle = func(b []byte) bool {
				if !sequenced(b) {
					return true
				}
				body := contents(b)
				if wire.BaseHeader(b[:wire.BaseHeaderLen]).Flags()&wire.FlagExt == 0 {
					if original == nil {
						original = bytes.Clone(body)
					}
					return false
				}
				got[body[1]] = bytes.Clone(body[wire.PartLen:])
				return true
			}
			for i := range uint32(3) { // several operations, one of them cut by the packet's end
				p.post(0, p.write(0, i*10000, n/4))
			}
			p.post(0, p.write(0, 50000, 3*n))
			p.eng[0].Run(p.now)
			first := p.conn(0).tx[0].una
			p.conn(0).mtu.Packet = 1472
			p.conn(0).resend(wire.RequestSpace, first, false, new(uint64))
			p.eng[0].flush()
			var sum []byte
			for i := range len(got) {
				sum = append(sum, got[uint8(i)]...)
			}
			whole := p.eng[0].staging
			if len(sum) == 0 || len(original) > len(sum) || !bytes.Equal(sum[:len(original)], original) || whole.n == 0 {
				t.Errorf("%d bytes in %d parts are not the %d bytes of the original", len(sum), len(got), len(original))
			}
		})
	}
}

// Neither sending, receiving, nor dropping parts allocates, once each has been done.
func TestPartsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := wide(t, 8972)
	p.link[1].mangle = func(b []byte) bool { return !sequenced(b) }
	p.post(0, p.write(0, 0, 20000))
	p.eng[0].Run(p.now)
	c := p.conn(0)
	c.mtu.Packet = wire.MinPacket
	psn := c.tx[0].una
	out := func() {
		c.resend(wire.RequestSpace, psn, true, &p.eng[0].stats.ResentLost)
		p.eng[0].flush()
	}
	out()
	if n := testing.AllocsPerRun(100, out); n != 0 {
		t.Errorf("sending: %v allocations", n)
	}
	p.link[1].mangle = nil
	p.conn(1).leaveIdle()
	whole, _ := p.bigWrite(8000)
	whole.fields.PSN++ // nothing is executed, so that all can come again
	var packets []TxPacket
	for _, limit := range []int{1200, 4000} { // each makes what came of the other worthless
		for _, f := range append(whole.cut(limit), whole.cut(limit)[0], whole) {
			b := f.bytes()
			if f == whole {
				b = b[:len(b)-1] // the checksum is wrong
			}
			packets = append(packets, TxPacket{N: 1, Len: len(b), Frags: [MaxFrags]Frag{{Data: b}}})
		}
	}
	to := wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
	in := func() {
		for i := range packets {
			p.link[1].deliver(&packets[i], whole.from, to)
			p.eng[1].Run(p.now)
		}
	}
	in()
	if n := testing.AllocsPerRun(100, in); n != 0 {
		t.Errorf("receiving: %v allocations", n)
	}
	if s := p.eng[1].Stats(); s.PartsIn < 1000 || s.PartsForgotten < 100 || s.Drops[wire.DropCRC] < 100 {
		t.Errorf("%+v", s)
	}
}
