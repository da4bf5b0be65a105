package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
)

// unlike returns the first offset at which src differs from the pattern named seed, or -1.
func unlike(src []byte, seed uint64) int {
	want := make([]byte, len(src))
	FillPattern(want, seed)
	return firstDifference(src, want)
}

func TestPatternShowsEveryFlippedBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 7, 8, 9, 64, 1000, 4096} {
		buf := make([]byte, size)
		FillPattern(buf, 42)
		if off := unlike(buf, 42); off != -1 {
			t.Fatalf("size %d: intact pattern refused at byte %d", size, off)
		}
		for range 200 {
			at, bit := rng.IntN(size), byte(1)<<rng.IntN(8)
			buf[at] ^= bit
			if off := unlike(buf, 42); off != at {
				t.Fatalf("size %d: byte %d was flipped, the comparison says %d", size, at, off)
			}
			buf[at] ^= bit
		}
	}
}

func TestPatternRefusesShiftedAndForeignData(t *testing.T) {
	buf := make([]byte, 4096)
	FillPattern(buf, 1)
	for _, shift := range []int{1, 8, 64, 1416} {
		if unlike(buf[shift:], 1) == -1 {
			t.Errorf("data shifted by %d bytes passes", shift)
		}
	}
	if unlike(buf, 2) == -1 {
		t.Error("data of another seed passes")
	}
}

// TestSlotsModel runs the scheme of slots and stamps against plain copies, with checks by a responder that is up to a pass late. If all
// operations transfer their bytes, no error is found. Any single operation that does not is named, whichever pass it is in.
func TestSlotsModel(t *testing.T) {
	for _, size := range []int{1, 7, 8, 32, 3000} {
		for _, slots := range []int{minSlots, 5} {
			m := slotsModel{size: size, slots: slots, half: uint64(slots / 2)}
			for ops := range uint64(4 * slots) {
				if err := m.run(ops, -1); err != nil {
					t.Fatalf("size %d, %d slots, %d operations: %v", size, slots, ops, err)
				}
				for lost := range int64(ops) {
					err := m.run(ops, lost)
					if err == nil {
						t.Fatalf("size %d, %d slots, %d operations: loss of operation %d went unnoticed", size, slots, ops, lost)
					}
					if named := fmt.Sprintf("operation %d ", lost); uint64(lost) < m.looked && !strings.Contains(err.Error(), named) {
						t.Fatalf("loss of operation %d is reported as: %v", lost, err)
					}
				}
			}
		}
	}
}

// TestWalk: counting leads to the same slots and stamps as dividing.
func TestWalk(t *testing.T) {
	for _, slots := range []int{minSlots, 4, 5, 64} {
		var w walk
		for k := range uint64(5 * slots) {
			src, dst := slotPair(k, slots)
			if w.k != k || w.src != src || w.dst != dst || stampIn(w.pass, w.dst) != stampOf(k, slots) {
				t.Fatalf("%d slots, operation %d: %+v, want %d to %d", slots, k, w, src, dst)
			}
			w.next(slots)
		}
	}
}

// slotsModel is a requester and a responder in one.
type slotsModel struct {
	size, slots int
	half        uint64
	looked      uint64 // operations whose stamps were checked
}

// run does so many operations, of which one may transfer nothing.
func (m *slotsModel) run(ops uint64, lost int64) error {
	const seed = 77
	src, dst := make([]byte, m.size*m.slots), make([]byte, m.size*m.slots)
	fillSlots(src, m.size, m.slots, seed)
	fillPoison(dst)
	slot := func(of []byte, i int) []byte { return of[i*m.size : (i+1)*m.size] }
	m.looked = 0
	for k := range ops {
		for m.looked+uint64(m.slots) <= k { // the window is full
			for range m.half {
				_, to := slotPair(m.looked, m.slots)
				if err := stamped(slot(dst, to), shortStep, stampOf(m.looked, m.slots), m.looked, to); err != nil {
					m.looked++
					return err
				}
				m.looked++
			}
		}
		from, to := slotPair(k, m.slots)
		stamp(slot(src, from), shortStep, stampOf(k, m.slots))
		if int64(k) != lost {
			copy(slot(dst, to), slot(src, from))
		}
	}
	return verifySlots(dst, m.size, m.slots, seed, ops, func(msg []byte, k uint64, _ int) { stamp(msg, shortStep, stampOf(k, m.slots)) })
}

func TestStrayWriteIsFound(t *testing.T) {
	const size, slots = 32, 5
	dst := make([]byte, size*slots)
	fillPoison(dst)
	dst[4*size] ^= 1
	err := verifySlots(dst, size, slots, 77, 0, nil)
	if err == nil || !strings.Contains(err.Error(), "slot 4 was written") {
		t.Errorf("a stray write beyond the run is reported as: %v", err)
	}
}

// TestEveryPacketCarriesAStamp: if any packet of a message is missing, or a frame of a packet with several frames, a stamp is missing.
func TestEveryPacketCarriesAStamp(t *testing.T) {
	for mtu, shortest := range map[int]int{
		0: 1280 - rawHeader - rawShim, 1500: 1280 - rawHeader - rawShim, // PROTOCOL section 7
		longStepMTU: xdp.RxFrameBytes - rawHeader - rawShim, 65000: xdp.RxFrameBytes - rawHeader - rawShim,
	} {
		step := Spec{MTU: mtu}.step()
		for _, size := range []int{1, 8, 9, 15, 16, 17, 1024, 1031, 1032, 1039, 1040, 1041, 5000, 70001, 1 << 20} {
			msg := make([]byte, size)
			stamp(msg, step, ^uint64(0))
			if at := unstamped(msg, step, ^uint64(0)); at >= 0 {
				t.Fatalf("size %d: the stamp is missing at %d", size, at)
			}
			for from := 0; from < size; from += 97 {
				gone := msg[from:min(from+shortest, size)]
				kept := slices.Clone(gone)
				clear(gone)
				if unstamped(msg, step, ^uint64(0)) < 0 {
					t.Fatalf("MTU %d, size %d: nobody misses the %d bytes at %d", mtu, size, len(gone), from)
				}
				copy(gone, kept)
			}
		}
	}
}

func BenchmarkPattern(b *testing.B) {
	buf := make([]byte, 1<<20)
	FillPattern(buf, 1)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if unlike(buf, 1) != -1 {
			b.Fatal("pattern does not verify")
		}
	}
}
