package provider

import (
	"hash/maphash"
	"math/bits"
)

// index finds connections by a key that they hold anyway. Entries are linked through the connections: a connection costs 16
// bytes where a map takes 65 to 90 for keys as long as ours. The table grows by a bucket at a time (linear hashing, Litwin
// 1980), so that no packet waits for all connections to be moved. Peers choose parts of the keys; the hash is seeded.
type index[K comparable] struct {
	seed    maphash.Seed
	buckets []*conn
	n       int
	key     func(*conn) K
	next    func(*conn) **conn
}

func newIndex[K comparable](key func(*conn) K, next func(*conn) **conn) index[K] {
	return index[K]{seed: maphash.MakeSeed(), buckets: make([]*conn, 1), key: key, next: next}
}

// bucket is where a key belongs: the table is between two powers of two, and what the larger one has no bucket for yet is still
// where the smaller one had it.
func (x *index[K]) bucket(k K) **conn {
	mask := uint64(1)<<bits.Len(uint(len(x.buckets)-1)) - 1
	i := maphash.Comparable(x.seed, k) & mask
	if i >= uint64(len(x.buckets)) {
		i &= mask >> 1
	}
	return &x.buckets[i]
}

// find returns the connection with a key, the newest of several, or nil.
func (x *index[K]) find(k K) *conn {
	c := *x.bucket(k)
	for c != nil && x.key(c) != k {
		c = *x.next(c)
	}
	return c
}

// add puts a connection in. Its key must not change while it is there.
func (x *index[K]) add(c *conn) {
	if x.n++; x.n > len(x.buckets) {
		x.split()
	}
	x.push(c)
}

func (x *index[K]) push(c *conn) {
	b := x.bucket(x.key(c))
	*x.next(c) = *b
	*b = c
}

// split adds a bucket, and moves there what belongs there from the only one that has such entries.
func (x *index[K]) split() {
	added := len(x.buckets)
	from := added &^ (1 << (bits.Len(uint(added)) - 1))
	var kept, moved *conn
	tail, movedTail := &kept, &moved // in the order they had: the newest of several with one key stays first
	x.buckets = append(x.buckets, nil)
	for c := x.buckets[from]; c != nil; c = *x.next(c) {
		if x.bucket(x.key(c)) == &x.buckets[added] {
			*movedTail, movedTail = c, x.next(c)
		} else {
			*tail, tail = c, x.next(c)
		}
	}
	*tail, *movedTail = nil, nil
	x.buckets[from], x.buckets[added] = kept, moved
}

// remove takes a connection out, if it is there.
func (x *index[K]) remove(c *conn) {
	for at := x.bucket(x.key(c)); *at != nil; at = x.next(*at) {
		if *at == c {
			*at = *x.next(c)
			*x.next(c) = nil
			x.n--
			return
		}
	}
}
