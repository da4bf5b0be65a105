package link

import (
	"math/rand/v2"
	"testing"
)

// frameLink hands out numbered frames and counts their owners.
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
			l.t.Fatalf("frame %d was released, and was not in use", id)
		}
		delete(l.out, id)
	}
}

func (l *frameLink) Pressure() uint8 { return l.pressure }

// Each frame is released once (I8), and all frames of a batch are released at its end, however many parts its packets have and
// which engine had them meanwhile.
func TestFramesComeBackOnce(t *testing.T) {
	for _, pieces := range []int{1, 3, MaxFrags} {
		rng := rand.New(rand.NewPCG(1, uint64(pieces)))
		link := &frameLink{t: t, out: map[uint64]bool{}, pieces: pieces}
		r := NewReceived(link)
		var away []RxPacket // packets at another engine
		for range 200 {
			for i := range r.link.Receive(r.batch[:1+rng.IntN(RxBatch)]) {
				if p := &r.batch[i]; rng.IntN(8) == 0 {
					away = append(away, *p)
				} else {
					r.Recycle(p)
				}
			}
			for len(away) > 0 && rng.IntN(2) == 0 {
				r.Recycle(&away[0])
				away = away[1:]
			}
			r.Flush()
			if len(link.out) != len(away)*pieces || len(r.back) != 0 {
				t.Fatalf("%d frames are out, want %d", len(link.out), len(away)*pieces)
			}
		}
	}
}

// The load is that of the side with more packets.
func TestLoad(t *testing.T) {
	link := &frameLink{t: t, out: map[uint64]bool{}}
	r := NewReceived(link)
	for _, test := range []struct {
		held     int
		pressure uint8
		want     uint8
	}{{0, 0, 0}, {0, 99, 99}, {1 << 20, 99, 99}, {2 << 20, 99, 128}, {4 << 20, 0, 255}, {4 << 20, 255, 255}} {
		link.pressure = test.pressure
		if r.MeasureLoad(test.held, 4<<20); r.load != test.want {
			t.Errorf("%d of %d bytes, pressure %d: load %d, want %d", test.held, 4<<20, test.pressure, r.load, test.want)
		}
	}
}
