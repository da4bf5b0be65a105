package xdp

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func newUMEM(t testing.TB, cfg UMEMConfig) *UMEM {
	t.Helper()
	u, err := NewUMEM(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func TestUMEMLayout(t *testing.T) {
	u := newUMEM(t, UMEMConfig{RxFrames: 3, TxFrames: 2, ArenaBytes: 5000})
	if got, want := u.ArenaBase(), uint64(5*FrameSize); got != want {
		t.Errorf("ArenaBase = %d, want %d", got, want)
	}
	if got, want := len(u.Arena()), 2*FrameSize; got != want {
		t.Errorf("arena of %d bytes, want %d", got, want)
	}
	if got, want := u.Size(), uint64(7*FrameSize); got != want {
		t.Errorf("Size = %d, want %d", got, want)
	}
	if addr := uintptr(unsafe.Pointer(&u.mem[0])); addr%FrameSize != 0 {
		t.Errorf("mapped at %#x, not page aligned", addr)
	}
	frame := u.Frame(FrameSize + 256)
	if len(frame) != FrameSize-256 || cap(frame) != len(frame) {
		t.Errorf("Frame: length %d, capacity %d, want both %d", len(frame), cap(frame), FrameSize-256)
	}
	b := u.Bytes(10, 20)
	if len(b) != 20 || cap(b) != 20 {
		t.Errorf("Bytes: length %d, capacity %d, want both 20", len(b), cap(b))
	}
	b[0] = 7
	if u.Frame(10)[0] != 7 {
		t.Error("Bytes and Frame show different memory")
	}
}

func TestUMEMCloseTwice(t *testing.T) {
	u, err := NewUMEM(UMEMConfig{RxFrames: 1, TxFrames: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.Close(), u.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := u.reserve(&Socket{}, 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("reserve on a closed UMEM: %v", err)
	}
}

func TestUMEMRejectsBadSizes(t *testing.T) {
	for _, cfg := range []UMEMConfig{
		{RxFrames: 1, ArenaBytes: -1},
		{RxFrames: ^uint32(0), TxFrames: 1},
		{RxFrames: 1, ArenaBytes: int(^uint(0) >> 1)},
	} {
		if _, err := NewUMEM(cfg); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestSpansModel allocates and releases random runs. A slice with the owner of each frame is the model.
func TestSpansModel(t *testing.T) {
	const frames = 200
	rng := rand.New(rand.NewPCG(1, 2))
	s := newSpans(10, frames)
	var owned [10 + frames]bool
	var held []span
	for step := range 5000 {
		if rng.IntN(2) == 0 {
			count := rng.Uint32N(40)
			most := s.largest()
			r, ok := s.take(count)
			if ok != (count <= most) {
				t.Fatalf("step %d: take(%d) = %t, largest %d", step, count, ok, most)
			}
			if !ok {
				continue
			}
			for i := r.start; i < r.start+r.count; i++ {
				if owned[i] || i < 10 {
					t.Fatalf("step %d: frame %d handed out twice or out of range", step, i)
				}
				owned[i] = true
			}
			held = append(held, r)
		} else if len(held) > 0 {
			i := rng.IntN(len(held))
			r := held[i]
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			for j := r.start; j < r.start+r.count; j++ {
				owned[j] = false
			}
			s.give(r)
		}
	}
	for _, r := range held {
		s.give(r)
	}
	if len(s.free) != 1 || s.free[0] != (span{10, frames}) {
		t.Errorf("after everything came back: %+v", s.free)
	}
}

func TestOffsetIn(t *testing.T) {
	whole := make([]byte, 100)
	area := whole[20:60]
	for _, tc := range []struct {
		name   string
		sub    []byte
		offset int
		ok     bool
	}{
		{"all", area, 0, true},
		{"inside", area[5:9], 5, true},
		{"last byte", area[39:40], 39, true},
		{"empty at start", area[:0], 0, true},
		{"empty at end", area[40:], 40, true},
		{"before", whole[10:15], 0, false},
		{"overlaps start", whole[19:25], 0, false},
		{"overlaps end", whole[55:61], 0, false},
		{"after", whole[60:70], 0, false},
		{"empty after", whole[61:61], 0, false},
		{"elsewhere", make([]byte, 10), 0, false},
		{"nil", nil, 0, false},
	} {
		offset, ok := OffsetIn(area, tc.sub)
		if ok != tc.ok || (ok && offset != tc.offset) {
			t.Errorf("%s: OffsetIn = %d, %t; want %d, %t", tc.name, offset, ok, tc.offset, tc.ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { OffsetIn(area, area[3:5]) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
