package provider

import (
	"math/rand/v2"
	"testing"
)

type indexKey struct{ a, b int }

type indexEntry struct {
	key  indexKey
	next *indexEntry
}

func (e *indexEntry) name() indexKey { return e.key }

// TestIndexAgainstATwin adds and removes keys at random, while the table grows through several powers of two, and looks everything
// up. Some keys occur twice: a lookup finds the newest entry, and after its removal the older one.
func TestIndexAgainstATwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := newIndex((*indexEntry).name, func(e *indexEntry) **indexEntry { return &e.next })
	twin := map[indexKey][]*indexEntry{}
	var all []*indexEntry
	check := func(k indexKey) {
		t.Helper()
		var want *indexEntry
		if l := twin[k]; len(l) > 0 {
			want = l[len(l)-1]
		}
		if x.Find(k) != want {
			t.Fatalf("found %p, want %p", x.Find(k), want)
		}
	}
	for i := range 5000 {
		if rng.IntN(3) > 0 || len(all) == 0 {
			c := &indexEntry{key: indexKey{rng.IntN(4), rng.IntN(3000)}}
			x.Add(c)
			all = append(all, c)
			twin[c.name()] = append(twin[c.name()], c)
		} else {
			j := rng.IntN(len(all))
			c := all[j]
			all[j] = all[len(all)-1]
			all = all[:len(all)-1]
			l := twin[c.name()]
			if c != l[len(l)-1] {
				continue // lookups find another entry of this key, so this one stays
			}
			x.Remove(c)
			x.Remove(c) // the entry was removed already
			twin[c.name()] = l[:len(l)-1]
			check(c.name())
		}
		if i%100 == 0 {
			for k := range twin {
				check(k)
			}
		}
	}
	check(indexKey{})
	n := 0
	for _, l := range twin {
		n += len(l)
	}
	if x.Len() != n || len(x.buckets) < n {
		t.Errorf("%d entries in %d buckets, %d in the twin", x.Len(), len(x.buckets), n)
	}
}
