package packet

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// frames is a link with a limited number of frames. It keeps the packets that leave, and the paths that are freed.
type frames struct {
	left  int
	sent  []link.TxPacket
	freed []link.Path
	early bool // a path was freed before a packet of it left
}

func (f *frames) Frames(dst []link.Frag) (n int) {
	for ; n < len(dst) && f.left > 0; n++ {
		f.left--
		dst[n] = link.Frag{Data: make([]byte, link.FrameSize), ID: uint64(f.left)}
	}
	return n
}

func (f *frames) Transmit(pkts []link.TxPacket) {
	for _, p := range pkts {
		f.early = f.early || slices.Contains(f.freed, p.Path)
	}
	f.sent = append(f.sent, pkts...)
}

func (f *frames) Forget(p link.Path) { f.freed = append(f.freed, p) }

// arrive turns a sent packet into a received one.
func arrive(t *testing.T, p *link.TxPacket) (*link.RxPacket, wire.BaseHeader) {
	t.Helper()
	rx := &link.RxPacket{N: p.N, Len: p.Len, Frags: p.Frags}
	h, d := wire.ParseBaseHeader(rx.Frags[0].Data)
	if intact := rx.Intact(h, uint64(h.Number()), uint32(h.Message())); d != wire.DropNone || !intact {
		t.Fatalf("%v, intact %v", d, intact)
	}
	var ack wire.Ack
	var report wire.Report
	if d := rx.ReadBlocks(h, &ack, &report); d != wire.DropNone {
		t.Fatal(d)
	}
	return rx, h
}

// Walk finds the operations that were written, with offsets that follow from the first one, across any number of frames. No frame
// is lost.
func TestWalkFindsWhatWasWritten(t *testing.T) {
	message := make([]byte, 40000)
	for i := range message {
		message[i] = byte(i * 7)
	}
	for _, limit := range []int{wire.MinPacket, 4096, 8972, 65507} {
		l := &frames{left: 400}
		o := NewOut(l)
		all := l.left
		at, got := space.At(5, 0), []byte(nil)
		for off := 0; off < len(message); {
			if !o.Begin(limit) {
				t.Fatal("no frames")
			}
			op := wire.Op{Opcode: wire.OpWrite, Address: 1, Token: 2, Total: uint32(len(message))}
			if off > 0 {
				op.Opcode = wire.OpMore
			}
			if !o.Fit(&op, uint32(len(message)-off), true) {
				t.Fatal("no room in an empty packet")
			}
			o.Put(&op)
			o.Payload(message[off : off+int(op.Length)])
			if o.Used() > limit {
				t.Fatalf("%d bytes in a packet of %d", o.Used(), limit)
			}
			f := wire.BaseFields{Flags: o.Flags(), Operations: true, Piece: o.Piece(), Message: 5, Offset: uint32(off), ConnID: 9}
			rx, h := arrive(t, o.Seal(1, wire.NotECT, &f))
			var w Walk
			for w.Start(rx, h, at); w.More(); {
				if d := w.Step(); d != wire.DropNone {
					t.Fatal(d)
				}
				dst := make([]byte, w.Op.Length)
				w.Place(dst)
				got = append(got, dst...)
			}
			at = w.To
			off += int(op.Length)
			l.left += rx.N
			o.Add()
			o.Flush()
		}
		if !bytes.Equal(got, message) || at != space.At(6, 0) {
			t.Errorf("packets of %d: %d of %d bytes, up to %v", limit, len(got), len(message), at)
		}
		if l.left+o.Frames() != all {
			t.Errorf("packets of %d: %d frames are gone", limit, all-l.left-o.Frames())
		}
	}
}

// Walk refuses a packet without contents, and a packet with contents behind a message that does not end.
func TestWalkRefuses(t *testing.T) {
	l := &frames{left: 100}
	o := NewOut(l)
	build := func(ops ...wire.Op) (*link.RxPacket, wire.BaseHeader) {
		o.Begin(wire.MinPacket)
		for i := range ops {
			o.Put(&ops[i])
			o.Payload(make([]byte, ops[i].Length))
		}
		return arrive(t, o.Seal(1, wire.NotECT, &wire.BaseFields{Operations: true, ConnID: 9}))
	}
	open := wire.Op{Opcode: wire.OpWrite, Token: 2, Total: 64, Length: 32}
	for want, ops := range map[wire.DropReason][]wire.Op{wire.DropLength: nil, wire.DropTrailing: {open, open}} {
		rx, h := build(ops...)
		var w Walk
		d := wire.DropNone
		for w.Start(rx, h, space.At(0, 0)); w.More() && d == wire.DropNone; {
			if d = w.Step(); d == wire.DropNone {
				w.Skip(int(w.Op.Length))
			}
		}
		if d != want {
			t.Errorf("%v, want %v", d, want)
		}
	}
}

// A packet that follows a long batch has the time after that batch has left. After a short batch, or a batch of the poll before,
// the time is not read again.
func TestNow(t *testing.T) {
	l := &frames{left: 400}
	o := NewOut(l)
	at := clock.Time(time.Hour)
	o.Clock = func() clock.Time { return at }
	send := func(n int) {
		for ; n > 0; n -= min(n, 1000) {
			o.Begin(1400)
			o.Payload(make([]byte, min(n, 1000)))
			o.Seal(1, wire.NotECT, &wire.BaseFields{Operations: true, ConnID: 9})
			o.Add()
		}
		o.Flush()
	}
	began := at
	o.BeginTurn()
	at = at.Add(time.Millisecond)
	send(longBatch - 500)
	send(longBatch - 500)
	if now := o.Now(began); now != began {
		t.Errorf("%v later behind short batches", now.Sub(began))
	}
	send(longBatch)
	if now := o.Now(began); now != at {
		t.Errorf("%v later behind a long batch, want %v", now.Sub(began), at.Sub(began))
	}
	next := at.Add(time.Millisecond)
	o.BeginTurn()
	send(100)
	if now := o.Now(next); now != next {
		t.Errorf("%v from the beginning of the next turn", now.Sub(next))
	}
}

// An abandoned packet releases its frames, also if its payload is memory of the link.
func TestAbandonGivesFramesBack(t *testing.T) {
	l := &frames{left: 100}
	o := NewOut(l)
	for _, refer := range []bool{false, true} {
		o.Begin(65507)
		before := o.Frames() + 1
		op := wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Total: 60000, Length: 60000}
		o.Put(&op)
		if src := make([]byte, op.Length); refer {
			if !o.Referable(uint32(len(src)), 0) {
				t.Fatal("a payload that fills the packet is copied")
			}
			o.Refer(src, 0)
		} else {
			o.Payload(src)
		}
		o.Abandon()
		if o.Frames() != before {
			t.Errorf("%d frames, %d before", o.Frames(), before)
		}
	}
	o.CutOff(&frames{})
	if o.Begin(100) || o.Counts().NoFrames != 1 || o.Starved() {
		t.Error("a packet without a frame")
	}
	o.Starve()
	if !o.Starved() {
		t.Error("what had to go out is not missed")
	}
	o.BeginTurn()
	if o.Starved() || o.Bytes() != 0 {
		t.Error("a turn begins with what the one before left")
	}
}

// A full batch goes to the link, in order.
func TestBatch(t *testing.T) {
	l := &frames{left: 100}
	o := NewOut(l)
	for i := range TxBatch {
		o.Begin(wire.MinPacket)
		o.Pad(wire.MinPacket)
		o.Seal(link.Path(i+1), wire.NotECT, &wire.BaseFields{ConnID: 9})
		if full := o.Add(); full != (i == TxBatch-1) {
			t.Fatalf("full after %d packets: %v", i+1, full)
		}
	}
	if !o.Flush() || o.Flush() || len(l.sent) != TxBatch || l.sent[TxBatch-1].Path != TxBatch {
		t.Errorf("%d packets left", len(l.sent))
	}
	if c := o.Counts(); c.Packets != TxBatch || c.Bytes != TxBatch*wire.MinPacket || o.Bytes() != TxBatch*wire.MinPacket {
		t.Errorf("%+v", c)
	}
}

// A path is freed after the packets that use it have left, in one batch with packets of others, and at once if no packet waits.
func TestPathsAreFreedAfterTheirPackets(t *testing.T) {
	l := &frames{left: 100}
	o := NewOut(l)
	if o.Forget(7) || len(l.freed) != 1 {
		t.Fatalf("with an empty batch, %d paths are free, want 1", len(l.freed))
	}
	o.Begin(wire.MinPacket)
	o.Pad(wire.MinPacket)
	o.Seal(100, wire.NotECT, &wire.BaseFields{ConnID: 9})
	o.Add()
	for i := range TxBatch {
		if full := o.Forget(link.Path(100 + i)); full != (i == TxBatch-1) {
			t.Fatalf("full after %d paths: %v", i+1, full)
		}
	}
	if len(l.sent) != 0 || len(l.freed) != 1 {
		t.Fatalf("%d packets left and %d paths are free before the batch leaves", len(l.sent), len(l.freed))
	}
	if !o.Flush() || l.early || len(l.sent) != 1 || len(l.freed) != 1+TxBatch {
		t.Errorf("%d packets left, %d paths are free, a path before its packet: %v", len(l.sent), len(l.freed), l.early)
	}
	if o.Forget(8) || len(l.freed) != 2+TxBatch {
		t.Errorf("%d paths are free, want %d", len(l.freed), 2+TxBatch)
	}
}

// PutWrite writes the same bytes as Put for a short WRITE that fits and lies in one frame, whatever precedes it in the packet.
func TestPutWriteWritesWhatPutDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	short, long := 0, 0
	for range 300 {
		limit := []int{wire.MinPacket, 4096, 8972}[rng.IntN(3)]
		var outs [2]Out
		for i := range outs {
			outs[i] = NewOut(&frames{left: 100})
			outs[i].Begin(limit)
		}
		for range 100 {
			src := make([]byte, rng.IntN([]int{4, 100, 1100}[rng.IntN(3)]))
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			op := wire.Op{Opcode: wire.OpWrite, Address: rng.Uint64(), Token: rng.Uint32(), Total: uint32(len(src))}
			fits := outs[0].Fit(&op, uint32(len(src)), true) && op.Flags&wire.OpLast != 0
			if fast := outs[1].PutWrite(op.Address, op.Token, src); fast && !fits {
				t.Fatal("a WRITE has no room, and was written")
			} else if !fits {
				break
			} else if !fast {
				outs[1].Put(&op)
				outs[1].Payload(src)
				long++
			} else {
				short++
			}
			outs[0].Put(&op)
			outs[0].Payload(src)
		}
		want, got := outs[0].Seal(1, wire.NotECT, &wire.BaseFields{Operations: true}), outs[1].Seal(1, wire.NotECT, &wire.BaseFields{Operations: true})
		if outs[0].Used() != outs[1].Used() || want.N != got.N {
			t.Fatalf("%d bytes in %d frames, want %d in %d", outs[1].Used(), got.N, outs[0].Used(), want.N)
		}
		for i := range want.N {
			if !bytes.Equal(want.Frags[i].Data, got.Frags[i].Data) {
				t.Fatalf("frame %d of %d differs", i, want.N)
			}
		}
	}
	if short < 1000 || long < 20 {
		t.Errorf("%d were written in one go, %d otherwise", short, long)
	}
}

// In a GSO batch the first segment of a message fills its packet, which is then as long as the following ones. Segments of very
// long messages, and of messages outside of batches, are aligned to cache lines.
func TestFirstPieceOfARun(t *testing.T) {
	for _, c := range []struct {
		inRun  bool
		length uint32
		fills  bool
	}{{true, alignedFrom - 1, true}, {true, alignedFrom, false}, {false, alignedFrom - 1, false}} {
		for _, max := range []int{1472, 8972, 64972} {
			limit := RunSize(max, 0)
			if limit > max || limit+pieceAlign <= max || (limit-wire.BaseHeaderLen)%pieceAlign != 0 {
				t.Errorf("packets of a run have %d of %d bytes", limit, max)
			}
			o := NewOut(&frames{left: 100})
			o.Begin(limit)
			o.Leaves(c.inRun, false, false)
			first := wire.Op{Opcode: wire.OpWrite, Token: 2, Total: c.length}
			if !o.Fit(&first, c.length, true) {
				t.Fatal("no room in an empty packet")
			}
			o.Put(&first)
			used := o.Used() + int(first.Length)
			if aligned := first.Length%pieceAlign == 0; aligned == c.fills || c.fills != (used == limit) {
				t.Errorf("%+v: the first packet has %d bytes of %d, %d of the message", c, used, limit, first.Length)
			}
			more := wire.Op{Opcode: wire.OpMore}
			o.Abandon()
			o.Begin(limit)
			if !o.Fit(&more, c.length-uint32(first.Length), true) || int(more.Length) != limit-wire.BaseHeaderLen {
				t.Errorf("%+v: the second piece has %d bytes", c, more.Length)
			}
		}
	}
}

// The fast path for full segments makes the same packets as the step-by-step path. Short segments, and segments that may change,
// are copied behind their headers, one packet of the batch behind another until the frame is full. Long ones stay in application
// memory.
func TestWholePieces(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  int
		copy   bool
		pieces int
	}{{"short", 1408, false, 1}, {"long", 8960, false, 2}, {"long that changes", 8960, true, 1}, {"longest", 65507, true, 1}} {
		l := &frames{left: 400}
		o := NewOut(l)
		w := Wholes{Path: 3, ECN: wire.ECT0, Bulk: true, Copy: c.copy, Fields: wire.BaseFields{Operations: true, Piece: true, Message: 7, Number: 5, Offset: 1000, ConnID: 9}}
		n := RunSize(c.limit, 0) - wire.BaseHeaderLen
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(i * 7)
		}
		o.Begin(c.limit)
		op := wire.Op{Opcode: wire.OpMore, Total: uint32(n) + 2000}
		o.Fit(&op, uint32(n)+1000, true)
		o.Put(&op)
		o.Payload(message)
		fields := w.Fields
		want := bytesOf(o.Seal(3, wire.ECT0, &fields))
		o.Add()
		o.Flush()
		count := 0
		for ; count < TxBatch-1 && o.RoomFor(&w, n); count++ {
			p := o.Whole(&w, message)
			if p.N != c.pieces || p.Path != 3 || p.ECN != wire.ECT0 || !p.Bulk || !p.Joins || p.Len != len(want) || !bytes.Equal(bytesOf(p), want) {
				t.Fatalf("%s: packet %d is %d bytes in %d pieces, want %d bytes in %d", c.name, count, p.Len, p.N, len(want), c.pieces)
			}
			if lent := p.N == 2; lent != (&p.Frags[p.N-1].Data[0] == &message[0]) {
				t.Errorf("%s: lent is %t", c.name, lent)
			}
			if before := o.batch[max(o.n-1, 0)].Frags[0].Data; o.n > 0 && &before[:len(before)+1][len(before)] != &p.Frags[0].Data[0] {
				t.Errorf("%s: packet %d does not lie behind the one before", c.name, count)
			}
			o.Add()
		}
		if room := stageSize / len(want); c.pieces == 1 && count != min(room, TxBatch-1) {
			t.Errorf("%s: %d packets had room, want %d", c.name, count, room)
		}
		o.Flush()
		if !o.RoomFor(&w, n) {
			t.Errorf("%s: no room after the batch left", c.name)
		}
	}
}

// bytesOf returns the bytes of a packet.
func bytesOf(p *link.TxPacket) (b []byte) {
	for _, f := range p.Frags[:p.N] {
		b = append(b, f.Data...)
	}
	return b
}
