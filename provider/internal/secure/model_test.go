package secure

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/wire"
)

// The Window agrees with a set of all numbers, for numbers that come in order, in disorder, with gaps of every size, and again.
func TestWindowAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w Window
		seen := map[uint64]bool{}
		floor, end := uint64(rng.Uint32N(1<<20)), uint64(0)
		w.Start(floor)
		at := floor
		for range 20000 {
			switch rng.Uint32N(16) {
			case 0:
				at += uint64(rng.Uint32N(2 * Span))
			case 1:
				at += Span + uint64(rng.Uint32N(3)) - 1
			case 2:
				at -= min(at, uint64(rng.Uint32N(2*Span)))
			case 3:
				at -= min(at, uint64(rng.Uint32N(wordBits)))
			default:
				at++
			}
			want := at >= floor && !seen[at] && at+Span >= end
			if got := w.Fresh(at); got != want {
				t.Fatalf("seed %d: %d is fresh: %v, want %v; the window ends at %d", seed, at, got, want, end)
			}
			if want {
				w.Mark(at)
				seen[at] = true
				end = max(end, at+1)
			}
			if w.End() != max(end, floor) {
				t.Fatalf("the window ends at %d, want %d", w.End(), end)
			}
		}
	}
}

// Two ends with hostile packets between them: what opens was sealed, once, and everything that arrives in time opens.
func TestDirectionsAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l := Limits{Update: 1 + uint64(rng.Uint32N(64)), Age: time.Minute, Most: 1 << 20, Forged: 1 << 30, Keep: time.Second}
		d := newDirection(t, aead.AES128GCM, &l)
		var sent []packet
		opened := map[uint64]bool{}
		number, updates := uint64(rng.Uint32N(1<<30)), 0
		for range 3000 {
			d.now = d.now.Add(time.Duration(rng.Uint32N(20)) * time.Millisecond)
			if d.out.Due(&l, d.now) {
				d.update()
				updates++
			}
			number += 1 + uint64(rng.Uint32N(3))
			sent = append(sent, d.seal(number))
			p := sent[len(sent)-1-int(min(rng.Uint32N(40), uint32(len(sent)-1)))]
			if rng.Uint32N(4) == 0 { // damaged on the way, in one bit
				p.sealed = bytes.Clone(p.sealed)
				p.sealed[rng.Uint32N(uint32(len(p.sealed)))] ^= 1 << rng.Uint32N(8)
				if r := d.open(p); r == wire.DropNone {
					t.Fatalf("seed %d: a damaged packet opened", seed)
				}
				continue
			}
			switch r := d.open(p); {
			case r == wire.DropNone && opened[p.number]:
				t.Fatalf("seed %d: %d opened twice", seed, p.number)
			case r == wire.DropNone:
				opened[p.number] = true
				d.out.Acknowledged(p.number)
			case r == wire.DropReplay && opened[p.number]:
			case r == wire.DropGeneration && p.generation+1 < d.out.Generation():
			case r == wire.DropGeneration && p.generation+1 == d.out.Generation() && d.now >= d.in.until:
			default:
				t.Fatalf("seed %d: packet %d of generation %d was dropped: %v", seed, p.number, p.generation, r)
			}
		}
		if updates == 0 {
			t.Errorf("seed %d: no key was updated", seed)
		}
	}
}
