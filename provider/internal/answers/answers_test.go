package answers

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/link/linktest"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// packs packs answers, from an offset to the end, into packets of 1408 bytes, and returns their contents.
func packs(t *testing.T, q *Queue, mem *access.Memory, at space.Place) (content []byte) {
	t.Helper()
	l := &linktest.Frames{}
	out := packet.NewOut(l)
	for packets := 0; q.Left(at) && packets < 100; packets++ {
		if !out.Begin(1408) {
			t.Fatal("no frames")
		}
		from := at
		to, ok := q.Pack(&out, mem, at, q.End())
		if !ok {
			t.Fatal("the memory is gone")
		}
		at = to
		p := out.Seal(1, wire.NotECT, &wire.BaseFields{Operations: true, Piece: out.Piece(), Flags: wire.FlagSpace | out.Flags(), Message: from.Message(), Offset: from.Offset()})
		rx := &link.RxPacket{N: p.N, Len: p.Len, Frags: p.Frags}
		h, _ := wire.ParseBaseHeader(rx.Frags[0].Data)
		if d := rx.ReadBlocks(h, nil, nil); d != wire.DropNone {
			t.Fatal(d)
		}
		var w packet.Walk
		for w.Start(rx, h, from); w.More(); {
			if d := w.Step(); d != wire.DropNone {
				t.Fatal(d)
			}
			b := make([]byte, w.Op.Length)
			w.Place(b)
			content = append(content, b...)
		}
		out.Add()
		out.Flush()
	}
	return content
}

// READs are answered in the order of their ids, across packets and each from its own address. Each counts against the limit until
// its whole answer is acknowledged.
func TestAnswersInOrder(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	b := make([]byte, 10_000)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	r, err := table.Register(b, memory.RightRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	mem := &access.Memory{Table: table}
	const first = 1<<32 - 2 // ids wrap around
	var q Queue
	q.Start(first)
	if q.Left(space.At(first, 0)) || q.Waiting() != 0 {
		t.Error("there is a READ to answer")
	}
	var want []byte
	for i, from := range []int{5, 4000, 0} {
		n := []int{3000, 0, 6000}[i]
		q.Add(&wire.Op{Address: r.Base() + uint64(from), Token: uint32(r.Token()), Total: uint32(n), Message: 70 + uint32(i)})
		want = append(want, b[from:from+n]...)
	}
	if q.Full(4) || !q.Full(3) || q.Next() != 1 || q.Oldest() != first || q.Message(0) != 72 || q.Rest(space.At(first, 1000)) != 2000 {
		t.Errorf("%d wait, the next is %d, the oldest %d", q.Waiting(), q.Next(), q.Oldest())
	}
	if got := packs(t, &q, mem, space.At(first, 0)); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d as they are in memory", len(got), len(want))
	}
	q.Acknowledge(space.At(first+1, 0))
	if q.Waiting() != 2 {
		t.Errorf("%d wait behind the first one", q.Waiting())
	}
	q.Acknowledge(space.At(0, 5000))
	if q.Waiting() != 1 || q.Oldest() != 0 {
		t.Errorf("%d wait while the last one was answered in part", q.Waiting())
	}
	q.Acknowledge(space.At(1, 0))
	q.Acknowledge(space.At(1, 0))
	if q.Waiting() != 0 || q.Unsent(space.At(1, 0)) {
		t.Errorf("%d wait at the end", q.Waiting())
	}
}

// If memory is deregistered, only the answer that reads it ends, and the frames of the packet are released.
func TestAnswersFromMemoryThatIsGone(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	mem := &access.Memory{Table: table}
	var q Queue
	var regions []*memory.Region
	for range 2 {
		r, err := table.Register(make([]byte, 5000), memory.RightRemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
		q.Add(&wire.Op{Address: r.Base(), Token: uint32(r.Token()), Total: 100})
	}
	if o := table.Deregister(regions[1]); o != outcome.Success {
		t.Fatal(o)
	}
	mem.Done()
	out := packet.NewOut(&linktest.Frames{})
	out.Begin(1408)
	have := out.Frames()
	if to, ok := q.Pack(&out, mem, space.At(0, 0), q.End()); ok || to != space.At(1, 0) || out.Frames() != have+1 {
		t.Errorf("packed up to %x, %t; %d frames are free, and were %d", to, ok, out.Frames(), have)
	}
}

// TERM follows the contents that were sent and replaces the rest. It is sent once, and again only if it is lost.
func TestTermEndsTheAnswers(t *testing.T) {
	var q Queue
	q.Add(&wire.Op{Total: 50})
	q.Terminate(wire.Op{Opcode: wire.OpTerm, Flags: wire.OpLast, Reason: wire.TermProtocol})
	if q.Unsent(space.At(0, 0)) || !q.Left(space.At(0, 0)) || !q.Terminated() || q.TermSent() || q.End() != space.At(1, 0) {
		t.Error("an answer goes behind TERM, or TERM does not go")
	}
	if term := q.SendTerm(); term.Reason != wire.TermProtocol || q.Term().Reason != wire.TermProtocol {
		t.Errorf("TERM says %v", term.Reason)
	}
	if q.Left(q.End()) || !q.TermSent() || q.End() != space.At(2, 0) {
		t.Error("TERM goes twice")
	}
	out := packet.NewOut(&linktest.Frames{})
	out.Begin(1408)
	used := out.Used()
	if to, ok := q.Pack(&out, nil, space.At(0, 0), space.At(2, 0)); !ok || to != space.At(2, 0) || out.Used() <= used {
		t.Error("the retransmission is not TERM")
	}
}
