package memory

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

func TestRegionSliceNeverWraps(t *testing.T) {
	r := &Grant{base: 1 << 41, buf: make([]byte, 4096)}
	for _, c := range []struct {
		addr, n uint64
		ok      bool
	}{
		{1 << 41, 4096, true},
		{1 << 41, 0, true},
		{1<<41 + 4096, 0, true},
		{1<<41 + 4095, 1, true},
		{1<<41 + 4096, 1, false},
		{1<<41 + 4097, 0, false},
		{1<<41 - 1, 1, false},
		{1 << 41, 4097, false},
		{1 << 41, math.MaxUint32, false},
		{1<<41 + 1, math.MaxUint64, false},
		{math.MaxUint64, 1, false},
		{math.MaxUint64, math.MaxUint64, false},
		{math.MaxUint64 - 4095, 4096, false},
		{0, 1, false},
	} {
		if _, ok := r.slice(c.addr, c.n); ok != c.ok {
			t.Errorf("slice(%#x, %#x) = %v", c.addr, c.n, ok)
		}
	}
}

// TestTokensAreNotReused registers and deregisters more often than the table has slots, and compares with a model.
func TestTokensAreNotReused(t *testing.T) {
	m := NewTable(rand.New(rand.NewPCG(1, 2)))
	rng := rand.New(rand.NewPCG(3, 4))
	live := map[Token]*Region{}
	var order, gone []*Region
	for range 3 * MaxRegions {
		if len(order) < 100 || rng.IntN(2) == 0 {
			r, err := m.Register(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Token() == 0 || live[r.Token()] != nil {
				t.Fatalf("token %#x", r.Token())
			}
			live[r.Token()] = r
			order = append(order, r)
			continue
		}
		r := order[0]
		order = order[1:]
		delete(live, r.Token())
		if o := m.Deregister(r); o != outcome.Success {
			t.Fatal(o)
		}
		if o := m.Deregister(r); o != outcome.InvalidState {
			t.Fatal(o)
		}
		gone = append(gone, r)
	}
	for token, r := range live {
		if m.Lookup(token) != r {
			t.Fatal("a live token is not found")
		}
	}
	for _, r := range gone {
		if found := m.Lookup(r.Token()); found == r {
			t.Fatal("a dead region is found")
		}
	}
	if m.Count() != len(live) {
		t.Errorf("count %d, want %d", m.Count(), len(live))
	}
}

// repeating is a random source that returns every number twice.
type repeating struct {
	last  uint64
	again bool
}

func (r *repeating) Uint64() uint64 {
	if r.again = !r.again; r.again {
		r.last += 1 << 32
	}
	return r.last
}

// Whatever the random source returns, a new binding has another token than the binding before.
func TestTokenOfABindingIsANewOne(t *testing.T) {
	m := NewTable(rand.New(rand.NewPCG(1, 2)))
	w, err := m.NewWindow()
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Register(make([]byte, 8), RightRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	m.rng = rand.New(&repeating{})
	for range 100 {
		before := w.Token()
		b, _ := w.Prepare(r, r.Base(), 8, r.Base(), RightRemoteRead)
		if now := b.Posted(); now == before || now == 0 || now != w.Token() {
			t.Fatalf("token %#x after %#x", now, before)
		}
	}
}

// A table takes memory for the slots that are used. Every collection of garbage reads this memory, in each program that has an adapter.
func TestMemoryOfATable(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := NewTable(rand.New(rand.NewPCG(1, 2)))
	for range pageSlots + 1 {
		if _, err := m.Register(make([]byte, 8), RightRemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if size := after.TotalAlloc - before.TotalAlloc; size > 128<<10 {
		t.Errorf("a table with %d regions takes %d bytes", pageSlots+1, size)
	}
}

// A token with any bit changed is invalid: it finds neither another slot nor its own.
func TestTokenIsWhole(t *testing.T) {
	m := NewTable(rand.New(rand.NewPCG(1, 2)))
	r, err := m.Register(make([]byte, 8), RightRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 32 {
		if token := r.Token() ^ 1<<bit; m.Lookup(token) != nil {
			t.Errorf("token %#x names what %#x does", token, r.Token())
		}
	}
}
