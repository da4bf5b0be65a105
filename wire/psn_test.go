package wire

import (
	"math/rand/v2"
	"testing"
)

// TestPSNModel compares circular arithmetic with plain 64-bit counting, around the wrap (PROTOCOL §1).
func TestPSNModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		a := int64(1)<<32*rng.Int64N(3) + rng.Int64N(1<<12) - 1<<11 + 1<<32
		b := a + rng.Int64N(1<<13) - 1<<12
		n := rng.Int64N(1 << 12)
		pa, pb := PSN(uint32(a)), PSN(uint32(b))
		if got := pa.Add(uint32(n)); got != PSN(uint32(a+n)) {
			t.Fatalf("%#x.Add(%d) = %#x", a, n, got)
		}
		if got := pb.Sub(pa); int64(got) != b-a {
			t.Fatalf("%#x.Sub(%#x) = %d", b, a, got)
		}
		if got := pa.Less(pb); got != (a < b) {
			t.Fatalf("%#x.Less(%#x) = %v", a, b, got)
		}
		if got := pb.InWindow(pa, uint32(n)); got != (a <= b && b < a+n) {
			t.Fatalf("%#x.InWindow(%#x, %d) = %v", b, a, n, got)
		}
	}
}

// TestPSNFarApart covers distances near half the circle (PROTOCOL §1).
func TestPSNFarApart(t *testing.T) {
	const half = 1 << 31
	p := PSN(0xfffffff0)
	if !p.Less(p.Add(half - 1)) {
		t.Error("half a circle less one is not ahead")
	}
	if p.Less(p.Add(half + 1)) {
		t.Error("half a circle plus one is not behind")
	}
	if p.InWindow(p, 0) {
		t.Error("an empty window holds its start")
	}
	if !p.Add(half).InWindow(p, half+1) {
		t.Error("a window longer than half the circle lost its end")
	}
}
