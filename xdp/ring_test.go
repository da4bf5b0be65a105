package xdp

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestDescLayout compares Desc with the kernel's struct: size, and the position of every field.
func TestDescLayout(t *testing.T) {
	var ours Desc
	var theirs unix.XDPDesc
	if got, want := unsafe.Sizeof(ours), unsafe.Sizeof(theirs); got != want || want != 16 {
		t.Fatalf("size of Desc = %d, want %d", got, want)
	}
	for _, field := range []struct {
		name      string
		got, want uintptr
	}{
		{"Addr", unsafe.Offsetof(ours.Addr), unsafe.Offsetof(theirs.Addr)},
		{"Len", unsafe.Offsetof(ours.Len), unsafe.Offsetof(theirs.Len)},
		{"Options", unsafe.Offsetof(ours.Options), unsafe.Offsetof(theirs.Options)},
	} {
		if field.got != field.want {
			t.Errorf("offset of %s = %d, want %d", field.name, field.got, field.want)
		}
	}
	if got := unsafe.Sizeof(unix.XDPUmemReg{}); got != 32 {
		t.Errorf("size of XDPUmemReg = %d, want 32", got)
	}
	if got := unsafe.Sizeof(ifreqData{}); got != 40 {
		t.Errorf("size of ifreqData = %d, want 40", got)
	}
	if got := unsafe.Sizeof(ethtoolChannels{}); got != 36 {
		t.Errorf("size of ethtoolChannels = %d, want 36", got)
	}
}

// TestRingModel runs random operations on both ends of a ring and on a slice, across the wrap-around of the indices.
func TestRingModel(t *testing.T) {
	for _, origin := range []uint32{0, 1, ^uint32(0), ^uint32(0) - 5, 1<<31 - 3} {
		for _, size := range []int{1, 2, 8, 64} {
			t.Run(fmt.Sprintf("origin=%#x,size=%d", origin, size), func(t *testing.T) {
				runRingModel(t, size, origin, rand.New(rand.NewPCG(uint64(origin), uint64(size))))
			})
		}
	}
}

func runRingModel(t *testing.T, size int, origin uint32, rng *rand.Rand) {
	mem := NewRingMemory[uint64](size, origin)
	p, c := NewProducer(mem), NewConsumer(mem)
	var twin []uint64 // submitted and not released
	next := uint64(1)
	for step := range 4000 {
		if rng.IntN(2) == 0 {
			want := rng.Uint32N(uint32(size) + 3)
			room := p.Reserve(want)
			if exact := min(want, uint32(size-len(twin))); room != exact {
				t.Fatalf("step %d: Reserve(%d) = %d with %d of %d used", step, want, room, len(twin), size)
			}
			for i := range room {
				p.Set(i, next+uint64(i))
			}
			// Fewer entries are submitted than were set. The remaining entries must stay invisible.
			n := rng.Uint32N(room + 1)
			p.Submit(n)
			for range n {
				twin = append(twin, next)
				next++
			}
			if got := p.Outstanding(); got != uint32(len(twin)) {
				t.Fatalf("step %d: Outstanding = %d, want %d", step, got, len(twin))
			}
			continue
		}
		want := rng.Uint32N(uint32(size) + 3)
		n := c.Peek(want)
		if full := c.Reload(want); full != min(want, uint32(len(twin))) || n > full || (n == 0 && full != 0 && want != 0) {
			t.Fatalf("step %d: Peek(%d) = %d, Reload = %d, with %d queued", step, want, n, full, len(twin))
		}
		for i := range n {
			if got := c.Get(i); got != twin[i] {
				t.Fatalf("step %d: slot %d = %d, want %d", step, i, got, twin[i])
			}
		}
		taken := rng.Uint32N(n + 1)
		c.Release(taken)
		twin = twin[taken:]
	}
}

// TestRingConcurrent lets the two ends run on two threads; the race detector watches the slots.
func TestRingConcurrent(t *testing.T) {
	const total = 20000
	mem := NewRingMemory[Desc](16, ^uint32(0)-100)
	go func() {
		p := NewProducer(mem)
		for sent := uint64(0); sent < total; {
			n := p.Reserve(uint32(min(5, total-sent)))
			for i := range n {
				p.Set(i, Desc{Addr: sent + uint64(i), Len: uint32(sent) + i})
			}
			p.Submit(n)
			sent += uint64(n)
		}
	}()
	c := NewConsumer(mem)
	for got := uint64(0); got < total; {
		n := c.Peek(7)
		for i := range n {
			want := got + uint64(i)
			if d := c.Get(i); d.Addr != want || d.Len != uint32(want) {
				t.Fatalf("descriptor %d = %+v", want, d)
			}
		}
		c.Release(n)
		got += uint64(n)
	}
}

// TestRingEmptyMemory covers the rings after Close.
func TestRingEmptyMemory(t *testing.T) {
	p, c := NewProducer(NewRingMemory[Desc](0, 0)), NewConsumer(NewRingMemory[Desc](0, 0))
	if p.Reserve(5) != 0 || c.Peek(5) != 0 || c.Reload(5) != 0 || p.Outstanding() != 0 {
		t.Error("a ring without slots offers some")
	}
}

func TestRingAllocs(t *testing.T) {
	mem := NewRingMemory[Desc](64, 0)
	p, c := NewProducer(mem), NewConsumer(mem)
	if n := testing.AllocsPerRun(100, func() { pass(&p, &c, 32) }); n != 0 {
		t.Errorf("%v allocations per batch, want 0", n)
	}
}

func pass(p *Producer[Desc], c *Consumer[Desc], batch uint32) {
	n := p.Reserve(batch)
	for i := range n {
		p.Set(i, Desc{Addr: uint64(i)})
	}
	p.Submit(n)
	n = c.Peek(batch)
	for i := range n {
		_ = c.Get(i)
	}
	c.Release(n)
}

func BenchmarkRing(b *testing.B) {
	for _, batch := range []uint32{1, 8, 32, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			mem := NewRingMemory[Desc](4096, 0)
			p, c := NewProducer(mem), NewConsumer(mem)
			b.ReportAllocs()
			for b.Loop() {
				pass(&p, &c, batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/desc")
		})
	}
}
