package wire

import (
	"math/rand/v2"
	"testing"
)

// TestExpandMessage expands 16 bits to a message number and compares it with 64-bit counting, around the wrap-arounds of 16 and of
// 32 bits (PROTOCOL §1, §3.1).
func TestExpandMessage(t *testing.T) {
	check := func(expected, number int64) {
		t.Helper()
		if got := ExpandMessage(uint16(number), uint32(expected)); got != uint32(number) {
			t.Fatalf("%#x, expected about %#x: %#x", uint32(number), uint32(expected), got)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, wrap := range []int64{1 << 16, 3 << 16, 1 << 31, 1 << 32} {
		for _, off := range []int64{-MaxMessages - 1, -MaxMessages, -1, 0, 1, MaxMessages} { // the farthest on either side
			check(wrap, wrap+off)
			check(wrap-1, wrap-1+off)
		}
		for range 50_000 {
			expected := wrap + rng.Int64N(1<<17) - 1<<16
			check(expected, expected+rng.Int64N(2*MaxMessages+1)-MaxMessages)
		}
	}
	if got := ExpandMessage(0xffff, 0); got != 0xffffffff {
		t.Errorf("one before the first is %#x", got)
	}
}
