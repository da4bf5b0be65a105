package provider

import (
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// TestIndexAgainstATwin adds and removes at random, while the table grows through several powers of two, and looks everything
// up. Some keys are there twice: the newest one is found, and the older one again when that is gone.
func TestIndexAgainstATwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := newIndex((*conn).tuple, func(c *conn) **conn { return &c.nextTuple })
	twin := map[tuple][]*conn{}
	var all []*conn
	check := func(k tuple) {
		t.Helper()
		var want *conn
		if l := twin[k]; len(l) > 0 {
			want = l[len(l)-1]
		}
		if x.find(k) != want {
			t.Fatalf("found %p, want %p", x.find(k), want)
		}
	}
	for i := range 5000 {
		if rng.IntN(3) > 0 || len(all) == 0 {
			c := &conn{lasting: lasting{identity: identity{remote: wire.Endpoint{IP: [16]byte{15: byte(rng.IntN(4))}}, localND: uint16(rng.IntN(3000)), peerN: 7}}}
			x.add(c)
			all = append(all, c)
			twin[c.tuple()] = append(twin[c.tuple()], c)
		} else {
			j := rng.IntN(len(all))
			c := all[j]
			all[j] = all[len(all)-1]
			all = all[:len(all)-1]
			l := twin[c.tuple()]
			if c != l[len(l)-1] {
				continue // it is not the one that is found, and stays
			}
			x.remove(c)
			x.remove(c) // it is not there any more
			twin[c.tuple()] = l[:len(l)-1]
			check(c.tuple())
		}
		if i%100 == 0 {
			for k := range twin {
				check(k)
			}
		}
	}
	check(tuple{})
	n := 0
	for _, l := range twin {
		n += len(l)
	}
	if x.n != n || len(x.buckets) < n {
		t.Errorf("%d entries in %d buckets, %d in the twin", x.n, len(x.buckets), n)
	}
}
