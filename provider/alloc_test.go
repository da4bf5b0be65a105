package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// allocates fails the test if f allocates after its first calls have filled all pools.
func allocates(t *testing.T, p *pair, f func()) {
	t.Helper()
	for range 300 { // after that every ring, record and heap has been used
		f()
	}
	var rs [64]Result
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 2 {
		for p.cq[i].Fetch(rs[:]) > 0 {
		}
	}
}

// counting is a tap that counts packets.
type counting struct{ packets int }

func (c *counting) Packet(*TapPacket) { c.packets++ }

// drain polls all results and discards them.
func (p *pair) drain(rs []Result) (n int) {
	for i := range 2 {
		n += p.cq[i].Fetch(rs)
	}
	return n
}

// A poll of the engine allocates nothing (I10), whatever requests are posted.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	t.Run("write", func(t *testing.T) {
		p := newPair(t, 1408).connect()
		small, big := p.write(0, 0, 64), p.write(0, 0, 20000)
		allocates(t, p, func() {
			p.post(0, small)
			p.post(0, big)
			p.runUntilIdle()
			p.drain(rs[:])
		})
	})
	t.Run("write, tapped", func(t *testing.T) {
		p := newPair(t, 1408).connect()
		seen := counting{}
		p.eng[0].SetTap(&seen)
		p.eng[1].SetTap(&seen)
		big := p.write(0, 0, 20000)
		allocates(t, p, func() {
			p.post(0, big)
			p.runUntilIdle()
			p.drain(rs[:])
		})
		if seen.packets == 0 {
			t.Error("the tap saw nothing")
		}
	})
	t.Run("send and receive", func(t *testing.T) {
		p := newPair(t, 1408).connect()
		s, into := p.send(0, 3000), p.sge(1, 0, 4000)
		allocates(t, p, func() {
			_, _ = p.qp[1].PostReceive(1, into, 4000)
			p.post(0, s)
			p.runUntilIdle()
			p.drain(rs[:])
		})
	})
	t.Run("read", func(t *testing.T) {
		p := newPair(t, 1408).connect()
		r := p.read(0, 20000)
		allocates(t, p, func() {
			p.post(0, r)
			p.runUntilIdle()
			p.drain(rs[:])
		})
	})
	t.Run("timers of an idle connection", func(t *testing.T) {
		p := newPair(t, 1408).connect()
		allocates(t, p, func() { p.pass(20 * time.Second) })
	})
}

func TestNoAllocationsUnderLoss(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	p := newPair(t, 1408).connect()
	p.link[0].loseNth, p.link[1].loseNth = 7, 5
	w, r := p.write(0, 0, 20000), p.read(0, 20000)
	send, into := p.send(0, 9000), p.sge(1, 0, 9000)
	allocates(t, p, func() {
		_, _ = p.qp[1].PostReceive(1, into, 9000)
		p.post(0, w)
		p.post(0, send)
		p.post(0, r)
		p.pass(100 * time.Millisecond)
		p.drain(rs[:])
	})
	if s := p.eng[0].Stats(); s.Retransmits == 0 {
		t.Error("nothing was retransmitted")
	}
}

func TestNoAllocationsPerWindow(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	p := newPair(t, 1408).connect()
	w, other, r := p.window(1), p.window(1), p.write(0, 0, 64)
	allocates(t, p, func() {
		_ = p.bind(1, w, 0, 4096, readWrite)
		_ = p.bind(1, other, 0, 4096, FlagAllowRead)
		p.runUntilIdle()
		r.Token = w.Token()
		p.post(0, r)
		p.runUntilIdle()
		_, _ = p.qp[1].Invalidate(0, w, 0)
		_, _ = p.qp[1].Invalidate(0, other, FlagReadFence)
		p.runUntilIdle()
		if p.drain(rs[:]) != 5 {
			t.Fatal("something failed")
		}
	})
}

// An attacker decides how often packets are dropped, so dropping a packet must not allocate.
func TestNoAllocationsPerDroppedPacket(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, change := range map[string]func(p *pair, f *forged){
		"checksum":   func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { b[len(b)-1] ^= 1; return b } },
		"short":      func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { return b[:20] } },
		"unknown id": func(_ *pair, f *forged) { f.fields.ConnID ^= 1 << 40 },
		"duplicate": func(p *pair, f *forged) {
			f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[0].next-space.At(1, 0))
		},
		"waits": func(p *pair, f *forged) {
			f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[0].next.NextMessage())
		},
		"no room": func(p *pair, f *forged) {
			p.eng[1].store = space.NewStore(0)
			f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[0].next.NextMessage())
		},
		"ack range": func(_ *pair, f *forged) { f.ack = &wire.Ack{Largest: 1 << 31, N: 1} },
		"stranger":  func(_ *pair, f *forged) { f.fields.ConnID = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect()
			f := p.forge(1)
			change(p, f)
			frame := f.bytes()
			to := wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
			tx := &TxPacket{N: 1, Len: len(frame)}
			tx.Frags[0].Data = frame
			allocates(t, p, func() {
				p.link[1].deliver(tx, f.from, to)
				p.runUntilIdle()
			})
			if n := p.eng[1].Stats().PacketsIn; n < 500 {
				t.Errorf("only %d packets came", n)
			}
		})
	}
}

// Retransmission of segments at a smaller packet size does not allocate, nor does storing and dropping overlapping segments, once
// each has happened before.
func TestRecutAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := wide(t, 8972)
	p.useAllFrames()
	p.link[1].mangle = func(b []byte) bool { return !sequenced(b) }
	p.post(0, p.write(0, 0, 20000))
	p.eng[0].Run(p.now)
	c := p.conn(0)
	c.mtu.Packet = wire.MinPacket
	sp := &c.traffic.sent.spaces[wire.RequestSpace]
	out := func() {
		for at := sp.Una(); at != sp.Next(); {
			sp.Missing(space.Piece{From: at, To: sp.Next()})
			c.traffic.resend(wire.RequestSpace, space.Piece{From: at, To: sp.Next()}, true, &p.eng[0].stats.ResentLost)
			p.eng[0].flush()
			rest, ok := sp.Again()
			if !ok {
				return
			}
			at = rest.From
		}
	}
	for range 300 {
		out()
	}
	if n := testing.AllocsPerRun(100, out); n != 0 {
		t.Errorf("sending: %v allocations", n)
	}
	p = newPair(t, 8972).connect()
	p.useAllFrames()
	want := bigWrite()
	m := p.writeOf(1, want) // nothing is executed, so that all segments can be sent again
	var packets []TxPacket
	for _, most := range []int{1200, 4000, 3000} {
		for _, f := range m.cut(most, true) {
			b := f.bytes()
			packets = append(packets, TxPacket{N: 1, Len: len(b), Frags: [MaxFrags]Frag{{Data: b}}})
		}
	}
	from, to := p.conn(1).identity.remote, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
	in := func() {
		for i := range packets {
			p.link[1].deliver(&packets[i], from, to)
			p.eng[1].Run(p.now)
		}
		g := &p.conn(1).traffic.received.spaces[wire.RequestSpace].gaps
		for !g.Empty() {
			h := g.Take()
			p.eng[1].store.Release(&h)
		}
	}
	in()
	if n := testing.AllocsPerRun(100, in); n != 0 {
		t.Errorf("receiving: %v allocations", n)
	}
}
