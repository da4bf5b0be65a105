package provider

import (
	"slices"
	"testing"
)

// TestPoolsKeepWhatIsLikelyToBeNeeded: a pool keeps as many free objects as are in use, and a few more.
func TestPoolsKeepWhatIsLikelyToBeNeeded(t *testing.T) {
	var p pool[*int]
	var have []*int
	for range 1000 {
		if x, ok := p.Get(); ok {
			t.Fatalf("%p out of nothing", x)
		}
		have = append(have, new(int))
	}
	again := func() {
		x, _ := p.Get()
		p.Put(x)
	}
	p.Get()
	p.Put(new(int))
	if testing.AllocsPerRun(100, again) != 0 {
		t.Error("taking and giving allocates")
	}
	for i, x := range have {
		p.Put(x)
		if p.out != 999-i || len(p.free) > max(p.out, 0)+spare {
			t.Fatalf("%d in use, %d free", p.out, len(p.free))
		}
	}
	for i, x := range p.free {
		if x == nil || slices.Contains(p.free[:i], x) {
			t.Fatal("a free object is there twice")
		}
	}
	p.Put(new(int)) // from another engine
	if p.out != -1 || len(p.free) != spare {
		t.Errorf("%d in use, %d free", p.out, len(p.free))
	}
}
