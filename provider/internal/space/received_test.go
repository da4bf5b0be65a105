package space

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// told returns the packet numbers of an ACK block, largest first.
func told(r *Received, most int) (numbers []uint64) {
	var a wire.Ack
	if !r.Tell(&a, 0, most) {
		return nil
	}
	largest := Expand(a.Largest, r.Largest())
	for _, s := range a.Ranges[:a.N] {
		for d := uint64(s.First); d <= uint64(s.Last); d++ {
			numbers = append(numbers, largest-d)
		}
	}
	return numbers
}

// A truncated number is expanded to the nearest to the expected one (RFC 9000 appendix A.3), also if the low 32 bits wrap around.
func TestHeardReconstructsNumbers(t *testing.T) {
	var r Received
	heard := func(low uint32) (number uint64, overtaken bool) {
		number = Expand(low, r.Largest()+1)
		return number, r.Heard(number)
	}
	if n, overtaken := heard(0x7ffffff0); n != 0x7ffffff0 || overtaken {
		t.Errorf("the first number is %#x, overtaken %v", n, overtaken)
	}
	n := uint64(0x7ffffff0)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		n += rng.Uint64N(1 << 30)
		if got, overtaken := heard(uint32(n)); got != n && n > r.Largest() || got == n && overtaken {
			t.Fatalf("heard %#x, want %#x", got, n)
		}
		late := n - rng.Uint64N(min(1<<30, n))
		if got, overtaken := heard(uint32(late)); got != late || overtaken != (late < n) {
			t.Fatalf("heard %#x, want %#x", got, late)
		}
	}
	if n < 1<<40 {
		t.Error("the low bits did not go round")
	}
}

// In any order of arrival, an ACK block names exactly the received numbers, and a repeated number is detected.
func TestReceivedInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var r Received
		first := rng.Uint64N(1 << 40)
		came := map[uint64]bool{}
		for range 1 + rng.IntN(40) {
			n := first + rng.Uint64N(48)
			r.Heard(n)
			if fresh := r.Add(n, 0, false); fresh == came[n] {
				t.Fatalf("%d is new: %v", n-first, fresh)
			}
			came[n] = true
		}
		got := told(&r, wire.MaxAckRanges)
		want := make([]uint64, 0, len(came))
		for n := range came {
			want = append(want, n)
		}
		slices.Sort(want)
		slices.Reverse(want)
		if !slices.Equal(got, want) {
			t.Fatalf("told %v, want %v", got, want)
		}
	}
}

// A flood of gaps removes only the lowest ranges: memory and blocks are bounded.
func TestRangesAreBounded(t *testing.T) {
	var r Received
	for i := range uint64(10000) {
		r.Heard(2 * i)
		r.Add(2*i, 0, false)
	}
	got := told(&r, wire.MaxAckRanges)
	if len(got) != wire.MaxAckRanges || got[0] != 2*9999 || got[len(got)-1] != 2*(10000-wire.MaxAckRanges) {
		t.Errorf("%d numbers from %d to %d", len(got), got[0], got[len(got)-1])
	}
	if r.Add(1, 0, false) {
		t.Error("a number far below counts as new")
	}
	if n := len(told(&r, 3)); n != 3 {
		t.Errorf("%d ranges in a block of three", n)
	}
}

// Ranges that the peer has received in a block are left out of later blocks. If the packet with the block was lost, the ranges are
// repeated.
func TestToldIsForgotten(t *testing.T) {
	var r Received
	add := func(numbers ...uint64) {
		for _, n := range numbers {
			r.Heard(n)
			r.Add(n, 0, false)
		}
	}
	add(1, 2, 4, 6)
	r.Told(100, 3)
	if r.Untold() {
		t.Error("something is untold behind a block")
	}
	add(8, 9)
	r.Told(101, 4) // another packet, not the one with the block
	r.Confirmed(101, 101)
	if got := told(&r, 9); !slices.Equal(got, []uint64{9, 8, 6, 4, 2, 1}) {
		t.Errorf("told %v before the carrier arrived", got)
	}
	r.Confirmed(90, 100)
	if got := told(&r, 9); !slices.Equal(got, []uint64{9, 8}) {
		t.Errorf("told %v after the carrier arrived", got)
	}
	if !r.Add(5, 0, false) {
		t.Error("a number that comes late is not told any more")
	}
	add(11)
	r.Told(102, 3)
	r.Missed(103) // the packet with the block is lost
	r.Confirmed(102, 102)
	if got := told(&r, 9); !slices.Equal(got, []uint64{11, 9, 8, 5}) {
		t.Errorf("told %v without the carrier", got)
	}
	r.Told(104, 3)
	r.Add(3, 0, false) // its block does not have this number
	r.Confirmed(104, 104)
	if got := told(&r, 9); !slices.Equal(got, []uint64{11, 9, 8, 5, 3}) {
		t.Errorf("told %v after a carrier that came before one of them", got)
	}
	r.Told(105, 4)
	r.Confirmed(105, 105)
	if got := told(&r, 9); !slices.Equal(got, []uint64{11}) {
		t.Errorf("told %v in the end", got)
	}
}

// The delay is that of the largest number. It is unknown if it is too long for a round-trip sample.
func TestDelay(t *testing.T) {
	var r Received
	var a wire.Ack
	at := clock.Time(1_000_000)
	r.Heard(7)
	r.Add(7, at, true)
	r.Add(5, at.Add(time.Millisecond), false)
	for held, want := range map[time.Duration]uint16{
		0: 0, 255: 0, 256: 1, 100 * time.Microsecond: 390, maxDelay: 39062, maxDelay + 1: wire.AckDelayUnknown, time.Hour: wire.AckDelayUnknown,
	} {
		if r.Tell(&a, at.Add(held), 1); a.Delay != want {
			t.Errorf("held for %v: delay %d, want %d", held, a.Delay, want)
		}
	}
	if !r.Late() || r.At() != at {
		t.Error("the largest number is not the one that was late")
	}
}

// A connection that leaves its idle state keeps its packet numbers.
func TestResume(t *testing.T) {
	var r Received
	r.Resume(1<<40+5, Run{})
	if overtaken := r.Heard(1<<40 + 6); overtaken || r.Largest() != 1<<40+6 {
		t.Errorf("heard %#x, overtaken %v", r.Largest(), overtaken)
	}
	if r.Untold() || r.n != 0 {
		t.Error("something is told of before anything came")
	}
	r.Resume(0, Run{})
	for _, low := range []uint32{1, 77, 1 << 31, 1<<32 - 1} {
		if n := Expand(low, r.Largest()+1); n != uint64(low) {
			t.Errorf("the first number is %d, and the packet says %d", n, low)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var r Received
	var a wire.Ack
	n := uint64(0)
	if got := testing.AllocsPerRun(1000, func() {
		n += 2
		r.Heard(n)
		r.Add(n, 0, false)
		r.Tell(&a, 0, wire.MaxAckRanges)
		r.Told(n, a.N)
		r.Confirmed(n, n)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
