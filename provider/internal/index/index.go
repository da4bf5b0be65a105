// Package index finds objects by keys that they hold anyway.
package index

import (
	"hash/maphash"
	"math/bits"
)

// Index finds objects by a key that they hold anyway. Entries are linked through the objects: one costs 16
// bytes where a map takes 65 to 90 for keys as long as ours. The table grows by a bucket at a time (linear hashing, Litwin
// 1980), so that nobody waits for all entries to be moved. Peers choose parts of the keys; the hash is seeded.
type Index[K comparable, V any] struct {
	seed    maphash.Seed
	buckets []*V
	n       int
	key     func(*V) K
	next    func(*V) **V
}

// New is empty. key is that of an entry, next the field of it that links entries.
func New[K comparable, V any](key func(*V) K, next func(*V) **V) Index[K, V] {
	return Index[K, V]{seed: maphash.MakeSeed(), buckets: make([]*V, 1), key: key, next: next}
}

// Len is how many entries there are.
func (x *Index[K, V]) Len() int { return x.n }

// bucket returns the bucket of a key. The size of the table is between two powers of two. A key whose bucket in the larger
// table does not exist yet is still in its bucket of the smaller table.
func (x *Index[K, V]) bucket(k K) **V {
	mask := uint64(1)<<bits.Len(uint(len(x.buckets)-1)) - 1
	i := maphash.Comparable(x.seed, k) & mask
	if i >= uint64(len(x.buckets)) {
		i &= mask >> 1
	}
	return &x.buckets[i]
}

// Find returns the entry with a key, the newest of several, or nil.
func (x *Index[K, V]) Find(k K) *V {
	v := *x.bucket(k)
	for v != nil && x.key(v) != k {
		v = *x.next(v)
	}
	return v
}

// Add puts an entry in. Its key must not change while it is there.
func (x *Index[K, V]) Add(v *V) {
	if x.n++; x.n > len(x.buckets) {
		x.split()
	}
	x.push(v)
}

func (x *Index[K, V]) push(v *V) {
	b := x.bucket(x.key(v))
	*x.next(v) = *b
	*b = v
}

// split adds a bucket, and moves its entries there from the only bucket that has such entries.
func (x *Index[K, V]) split() {
	added := len(x.buckets)
	from := added &^ (1 << (bits.Len(uint(added)) - 1))
	var kept, moved *V
	tail, movedTail := &kept, &moved // in the order they had: the newest of several with one key stays first
	x.buckets = append(x.buckets, nil)
	for v := x.buckets[from]; v != nil; v = *x.next(v) {
		if x.bucket(x.key(v)) == &x.buckets[added] {
			*movedTail, movedTail = v, x.next(v)
		} else {
			*tail, tail = v, x.next(v)
		}
	}
	*tail, *movedTail = nil, nil
	x.buckets[from], x.buckets[added] = kept, moved
}

// Remove takes an entry out, if it is there.
func (x *Index[K, V]) Remove(v *V) {
	for at := x.bucket(x.key(v)); *at != nil; at = x.next(*at) {
		if *at == v {
			*at = *x.next(v)
			*x.next(v) = nil
			x.n--
			return
		}
	}
}
