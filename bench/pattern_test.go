package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestVerifyPatternFindsEveryFlippedBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 7, 8, 9, 64, 1000, 4096} {
		buf := make([]byte, size)
		FillPattern(buf, 42)
		if off := VerifyPattern(buf, 42); off != -1 {
			t.Fatalf("size %d: intact pattern refused at byte %d", size, off)
		}
		for range 200 {
			at, bit := rng.IntN(size), byte(1)<<rng.IntN(8)
			buf[at] ^= bit
			if off := VerifyPattern(buf, 42); off != at {
				t.Fatalf("size %d: byte %d was flipped, VerifyPattern says %d", size, at, off)
			}
			buf[at] ^= bit
		}
	}
}

func TestVerifyPatternRefusesShiftedAndForeignData(t *testing.T) {
	buf := make([]byte, 4096)
	FillPattern(buf, 1)
	for _, shift := range []int{1, 8, 64, 1416} {
		if VerifyPattern(buf[shift:], 1) == -1 {
			t.Errorf("data shifted by %d bytes passes", shift)
		}
	}
	if VerifyPattern(buf, 2) == -1 {
		t.Error("data of another seed passes")
	}
}

// TestSlotsModel runs the slot scheme against plain copies: the final content must verify for every number of
// operations, and must stop to verify when any one operation of the last two passes is lost.
func TestSlotsModel(t *testing.T) {
	const size, slots, seed = 32, 5, 77
	src := make([]byte, size*slots)
	fillSlots(src, size, slots, seed)
	move := func(dst []byte, ops uint64, skip int64) {
		fillPoison(dst)
		for k := range ops {
			if int64(k) == skip {
				continue
			}
			from, to := slotPair(k, slots)
			copy(dst[to*size:(to+1)*size], src[from*size:(from+1)*size])
		}
	}
	dst := make([]byte, size*slots)
	for ops := range uint64(4 * slots) {
		move(dst, ops, -1)
		if err := verifySlots(dst, size, slots, seed, ops); err != nil {
			t.Fatalf("%d operations: %v", ops, err)
		}
		for lost := max(0, int64(ops)-slots); lost < int64(ops); lost++ {
			move(dst, ops, lost)
			if verifySlots(dst, size, slots, seed, ops) == nil {
				t.Fatalf("%d operations: loss of operation %d went unnoticed", ops, lost)
			}
		}
	}
	move(dst, 3, -1)
	dst[4*size] ^= 1
	err := verifySlots(dst, size, slots, seed, 3)
	if err == nil || !strings.Contains(err.Error(), "slot 4 was written") {
		t.Errorf("a stray write beyond the run is reported as: %v", err)
	}
}

func BenchmarkVerifyPattern(b *testing.B) {
	buf := make([]byte, 1<<20)
	FillPattern(buf, 1)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if VerifyPattern(buf, 1) != -1 {
			b.Fatal("pattern does not verify")
		}
	}
}
