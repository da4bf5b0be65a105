package provider

import (
	"math/rand/v2"
	"testing"
)

// frameLink hands out frames by number and counts who has them.
type frameLink struct {
	t        *testing.T
	out      map[uint64]bool
	next     uint64
	pieces   int
	pressure uint8
}

func (l *frameLink) Receive(pkts []RxPacket) int {
	for i := range pkts {
		pkts[i] = RxPacket{N: l.pieces}
		for j := range l.pieces {
			l.next++
			pkts[i].Frags[j].ID = l.next
			l.out[l.next] = true
		}
	}
	return len(pkts)
}

func (l *frameLink) Recycle(ids []uint64) {
	for _, id := range ids {
		if !l.out[id] {
			l.t.Fatalf("frame %d came back, and nobody had it", id)
		}
		delete(l.out, id)
	}
}

func (l *frameLink) Pressure() uint8 { return l.pressure }

// Each frame comes back once, whether its packet was used at once or waited (I8), and a place is free again when its packet left.
func TestFramesComeBackOnce(t *testing.T) {
	const places = 100
	for _, pieces := range []int{1, 3, MaxFrags} {
		rng := rand.New(rand.NewPCG(1, uint64(pieces)))
		link := &frameLink{t: t, out: map[uint64]bool{}, pieces: pieces}
		r := newReceived(link, places, true)
		waiting := map[heldPacket]uint64{} // the first frame; 0 for what has none
		for range 200 {
			for i := range r.link.Receive(r.batch[:1+rng.IntN(rxBatch)]) {
				p := &r.batch[i]
				switch rng.IntN(4) {
				case 0:
					if at, ok := r.hold(p); ok {
						waiting[at] = p.Frags[0].ID
						continue
					}
				case 1:
					r.plan.n = 1
					if at, ok := r.hold(nil); ok {
						waiting[at] = 0
					}
				}
				r.recycle(p)
			}
			for at, first := range waiting {
				if rng.IntN(2) == 0 {
					continue
				}
				if n := r.pieces(at); (n > 0) != (first > 0) || n > 0 && n != pieces {
					t.Fatalf("%d pieces wait", n)
				}
				if p := r.leave(at); p != nil {
					if p.Frags[0].ID != first {
						t.Fatalf("frame %d left, want %d", p.Frags[0].ID, first)
					}
					r.recycle(p)
				} else if first > 0 {
					t.Fatal("a packet was lost")
				}
				delete(waiting, at)
			}
			r.flush()
			kept := 0
			for _, first := range waiting {
				if first > 0 {
					kept += pieces
				}
			}
			if len(link.out) != kept || r.waiting() != len(waiting) {
				t.Fatalf("%d frames are out, want %d; %d packets wait, want %d", len(link.out), kept, r.waiting(), len(waiting))
			}
		}
	}
}

// No more packets wait than there are places, and what needs none has none.
func TestPlacesAreBounded(t *testing.T) {
	r := newReceived(&frameLink{t: t, out: map[uint64]bool{}}, 3, false)
	for i := range 4 {
		if _, ok := r.hold(&RxPacket{N: 1}); ok != (i < 3) {
			t.Errorf("packet %d is held: %v", i, ok)
		}
	}
	if p := r.leave(heldNothing); p != nil || r.pieces(heldNothing)+r.pieces(0) != 0 || r.waiting() != 3 {
		t.Error("what has no place left one")
	}
}

// The load is that of the fuller side.
func TestLoad(t *testing.T) {
	link := &frameLink{t: t, out: map[uint64]bool{}}
	r := newReceived(link, 4, false)
	for _, test := range []struct {
		held     int
		pressure uint8
		want     uint8
	}{{0, 0, 0}, {0, 99, 99}, {1, 99, 99}, {2, 99, 128}, {4, 0, 255}, {4, 255, 255}} {
		for r.waiting() < test.held {
			r.hold(&RxPacket{N: 1})
		}
		link.pressure = test.pressure
		if r.measureLoad(); r.load != test.want {
			t.Errorf("%d of 4 places, pressure %d: load %d, want %d", test.held, test.pressure, r.load, test.want)
		}
	}
}
