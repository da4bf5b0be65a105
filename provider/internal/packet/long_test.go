package packet

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// fillLong writes operations with lent and copied payload until the packet is full. It returns the payloads, and how many were lent.
func fillLong(o *Out, rng *rand.Rand) (want [][]byte, lent int) {
	for i := 5; ; i++ {
		n := 1 + rng.IntN([]int{100, 1000, 3000, 40000}[rng.IntN(4)])
		if rng.IntN(2) == 0 {
			n = (n + 7) &^ 7 // no padding follows, and a frame may end right in front of a header
		}
		src := make([]byte, n)
		for j := range src {
			src[j] = byte(i + j*7)
		}
		if rng.IntN(2) == 0 && o.PutWrite(1, 2, src) {
			want = append(want, src)
			continue
		}
		op := wire.Op{Opcode: wire.OpWrite, Address: 1, Token: 2, Total: uint32(n)}
		if !o.Fit(&op, uint32(n), true) {
			return want, lent
		}
		o.Put(&op)
		src = src[:op.Length]
		if rng.IntN(4) > 0 && o.Lendable(uint32(len(src))) {
			o.Lend(src)
			lent++
		} else {
			o.Payload(src)
		}
		want = append(want, src)
		if op.Flags&wire.OpLast == 0 {
			return want, lent
		}
	}
}

// A long packet holds many operations, with lent and copied payload in any order. All are found in it, no frame is lost, and it never has
// more fragments than a packet may have.
func TestLongPackets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lent, most := 0, 0
	for range 6000 {
		l := &frames{left: 400}
		o := NewOut(l)
		limit := 8<<10 + rng.IntN(56<<10)
		if !o.Holds(limit) || !o.Begin(limit) {
			t.Fatal("no frames")
		}
		o.Leaves(true, true, true)
		inCache := o.Frames() + 1
		want, n := fillLong(&o, rng)
		lent += n
		if o.Used() > limit {
			t.Fatalf("%d bytes in a packet of %d", o.Used(), limit)
		}
		if rng.IntN(4) == 0 {
			if o.Abandon(); o.Frames() != inCache {
				t.Fatalf("%d frames after Abandon, %d before", o.Frames(), inCache)
			}
			continue
		}
		o.TakeBulk()
		o.TakeLong(1472)
		p := o.Seal(1, wire.NotECT, &wire.BaseFields{Flags: o.Flags(), Operations: true, Message: 5, ConnID: 9})
		if most = max(most, p.N); p.Segment != 1472 || p.Joins || !p.Bulk || !wire.IsLong(p.Frags[0].Data) {
			t.Fatalf("not a long packet: %+v", p)
		}
		frames := 0
		for i := range p.N {
			if p.Frags[i].ID != link.Lent {
				frames++
			}
			if len(p.Frags[i].Data) == 0 {
				t.Fatalf("fragment %d of %d is empty", i, p.N)
			}
		}
		if o.Frames()+frames != inCache {
			t.Fatalf("%d of %d frames leave, %d are cached", frames, inCache, o.Frames())
		}
		rx, h := arrive(t, p)
		var w Walk
		for w.Start(rx, h, space.At(5, 0)); w.More(); want = want[1:] {
			if d := w.Step(); d != wire.DropNone {
				t.Fatal(d)
			}
			got := make([]byte, w.Op.Length)
			if w.Place(got); len(want) == 0 || !bytes.Equal(got, want[0]) {
				t.Fatalf("the %d bytes of an operation differ from the sent bytes", len(got))
			}
		}
		if len(want) > 0 {
			t.Fatalf("%d operations are missing", len(want))
		}
	}
	if lent < 1000 || most != link.MaxFrags {
		t.Errorf("%d payloads were lent, and packets had up to %d fragments", lent, most)
	}
}

// Holds counts no packet that waits.
func TestHolds(t *testing.T) {
	o := NewOut(&frames{left: 10})
	if !o.Holds(8*link.FrameSize) || o.Holds(9*link.FrameSize) || o.Counts().NoFrames != 0 {
		t.Errorf("wrong, %d packets waited", o.Counts().NoFrames)
	}
}
