package shake

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// text returns n bytes whose values show their offsets.
func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i>>8)
	}
	return b
}

// A flight arrives whole and in order over a network that loses, repeats and reorders packets.
func TestFlightArrives(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := text(1 + rng.IntN(MaxLevel))
		most := 200 + rng.IntN(wire.MaxShakeBytes-200)
		var f Flight
		var a Assembly
		var got []byte
		written := 0
		for round := 0; len(got) < len(want); round++ {
			if round > 200 {
				t.Fatalf("seed %d: %d of %d bytes arrived", seed, len(got), len(want))
			}
			if f.Done() && written < len(want) { // several flights of one level
				n := 1 + rng.IntN(len(want)-written)
				if !f.Write(want[written : written+n]) {
					t.Fatal("the flight is too long")
				}
				written += n
			}
			var under [][2]int // fragments on the way
			for at := f.Have(); at < f.Len(); {
				n := len(f.Fragment(at, most))
				for range rng.IntN(3) {
					under = append(under, [2]int{at, n})
				}
				at += n
			}
			rng.Shuffle(len(under), func(i, j int) { under[i], under[j] = under[j], under[i] })
			for _, u := range under {
				before := a.Have()
				fresh, d := a.Add(u[0], f.Len(), f.Fragment(u[0], u[1]), MaxLevel)
				if d != wire.DropNone && a.n < maxGaps || fresh != (a.Have() > before) {
					t.Fatalf("seed %d: %v, fresh %v", seed, d, fresh)
				}
				got = append(got, a.Next()...)
				a.Take()
			}
			if rng.IntN(3) > 0 && !f.Acknowledge(a.Have()) {
				t.Fatalf("seed %d: %d bytes are too many", seed, a.Have())
			}
		}
		if !bytes.Equal(got, want) || !a.Whole() {
			t.Fatalf("seed %d: the bytes differ", seed)
		}
	}
}

// Fragments that contradict each other or a bound are dropped, and change nothing.
func TestHostileFragmentsAreDropped(t *testing.T) {
	b := text(1000)
	for name, c := range map[string]struct {
		offset, total int
		b             []byte
	}{
		"no bytes":                 {0, 1000, nil},
		"bytes behind the total":   {900, 1000, b[:101]},
		"a larger total":           {300, 1001, b[300:400]},
		"a smaller total":          {300, 999, b[300:400]},
		"a total beyond the bound": {0, MaxUnproven + 1, b[:1]},
		"a changed byte":           {0, 1000, append(bytes.Clone(b[:99]), 'x')},
		"a changed byte behind":    {550, 1000, append(bytes.Clone(b[550:560]), 'x')},
		"a change in an overlap":   {90, 1000, bytes.Repeat([]byte("x"), 20)},
		"a negative offset":        {-1, 1000, b[:10]},
	} {
		var a Assembly
		for _, s := range []span{{0, 100}, {500, 600}} {
			if _, d := a.Add(s.from, 1000, b[s.from:s.to], MaxUnproven); d != wire.DropNone {
				t.Fatal(d)
			}
		}
		if fresh, d := a.Add(c.offset, c.total, c.b, MaxUnproven); d != wire.DropShake || fresh {
			t.Errorf("%s: %v", name, d)
		}
		if _, d := a.Add(0, 1000, b, MaxUnproven); d != wire.DropNone || !bytes.Equal(a.Next(), b) {
			t.Errorf("%s: the honest bytes did not arrive (%v)", name, d)
		}
	}
}

// Single bytes with gaps between them cost a bounded amount of memory, and the honest bytes still arrive.
func TestManyGapsAreBounded(t *testing.T) {
	b := text(MaxUnproven)
	var a Assembly
	dropped := 0
	for at := MaxUnproven - 1; at > 0; at -= 2 {
		if _, d := a.Add(at, MaxUnproven, b[at:at+1], MaxUnproven); d != wire.DropNone {
			dropped++
		}
	}
	if a.n != maxGaps || dropped != MaxUnproven/2-maxGaps || cap(a.bytes) > 2*MaxUnproven {
		t.Errorf("%d gaps, %d dropped, %d bytes of memory", a.n, dropped, cap(a.bytes))
	}
	for at := 0; at < MaxUnproven; at += 1000 {
		if _, d := a.Add(at, MaxUnproven, b[at:min(at+1000, MaxUnproven)], MaxUnproven); d != wire.DropNone {
			t.Fatal(d)
		}
	}
	if !a.Whole() || !bytes.Equal(a.Next(), b) {
		t.Error("the honest bytes did not arrive")
	}
}

// An announced length alone costs no memory.
func TestMemoryFollowsWhatArrived(t *testing.T) {
	var a Assembly
	a.Add(0, MaxLevel, text(1), MaxLevel)
	if cap(a.bytes) > 64 {
		t.Errorf("one byte costs %d", cap(a.bytes))
	}
}

// A level may continue once its earlier bytes are whole: TLS sends a second ClientHello after HelloRetryRequest.
func TestLevelContinues(t *testing.T) {
	b := text(300)
	var a Assembly
	a.Add(0, 100, b[:100], MaxHello)
	if got := a.Next(); len(got) != 100 || !a.Whole() {
		t.Fatalf("%d bytes", len(got))
	}
	if len(a.Next()) != 100 {
		t.Error("bytes that were not taken are gone")
	}
	a.Take()
	if fresh, d := a.Add(100, 300, b[100:], MaxHello); !fresh || d != wire.DropNone || !bytes.Equal(a.Next(), b[100:]) {
		t.Errorf("the second flight did not arrive (%v)", d)
	}
}

func TestFlightBounds(t *testing.T) {
	var f Flight
	if !f.Write(text(MaxLevel)) || f.Write(text(1)) || f.Len() != MaxLevel {
		t.Error("a level has more bytes than its bound")
	}
	if f.Acknowledge(MaxLevel+1) || f.Have() != 0 || !f.Acknowledge(7) || !f.Acknowledge(3) || f.Have() != 7 {
		t.Errorf("the peer has %d bytes", f.Have())
	}
	if len(f.Fragment(MaxLevel, 10)) != 0 || len(f.Fragment(MaxLevel+5, 10)) != 0 || len(f.Fragment(MaxLevel-3, 10)) != 3 {
		t.Error("fragments behind the end")
	}
}

func TestEraseClears(t *testing.T) {
	var f Flight
	var a Assembly
	f.Write(text(100))
	a.Add(0, 100, text(100), MaxLevel)
	sent, received := f.bytes, a.bytes
	f.Erase()
	a.Erase()
	if zero := make([]byte, 100); !bytes.Equal(sent, zero) || !bytes.Equal(received, zero) || f.Len() != 0 || a.Have() != 0 {
		t.Error("bytes of the handshake are left")
	}
}

// FuzzAssembly compares an Assembly with a map of bytes.
func FuzzAssembly(f *testing.F) {
	f.Add([]byte("\x00\x00\x10\x05\x00\x08\x20\x00"))
	f.Add(bytes.Repeat([]byte("\x01\x00\x00\x10\x01\x10"), 20))
	f.Fuzz(func(t *testing.T, script []byte) {
		const size = 600
		want := text(size)
		var a Assembly
		arrived := map[int]bool{}
		for ; len(script) >= 3; script = script[3:] {
			offset, n := int(script[0])*2, int(script[1])
			b := bytes.Clone(want[min(offset, size):min(offset+n, size)])
			lies := script[2]&1 != 0 && len(b) > 0
			if lies {
				b[int(script[2]>>1)%len(b)] ^= 1
			}
			_, d := a.Add(offset, size, b, size)
			if lies {
				a = Assembly{} // a lie may arrive first; the next handshake begins
				arrived = map[int]bool{}
				continue
			}
			if d == wire.DropNone {
				for i := range b {
					arrived[offset+i] = true
				}
			}
			have := 0
			for arrived[have] {
				have++
			}
			if a.Have() != have || !bytes.Equal(a.bytes[:have], want[:have]) {
				t.Fatalf("%d bytes in order, want %d", a.Have(), have)
			}
			for i := 1; i < a.n; i++ {
				if a.later[i].from <= a.later[i-1].to {
					t.Fatal(fmt.Sprint("spans ", a.later[:a.n]))
				}
			}
		}
	})
}
