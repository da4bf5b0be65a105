package provider

import (
	"hash/maphash"
	"math/bits"
)

// index finds objects by a key that the objects hold. Entries are linked through the objects. An entry costs 16 bytes; an entry of
// a Go map with our keys costs 65 to 90. The table grows by one bucket at a time (linear hashing, Litwin 1980), so no call has to
// move all entries. The hash is seeded, because peers choose parts of the keys.
type index[K comparable, V any] struct {
	seed    maphash.Seed
	buckets []*V
	n       int
	key     func(*V) K
	next    func(*V) **V
}

// newIndex returns an empty index. key returns the key of an entry; next returns the field that links entries.
func newIndex[K comparable, V any](key func(*V) K, next func(*V) **V) index[K, V] {
	return index[K, V]{seed: maphash.MakeSeed(), buckets: make([]*V, 1), key: key, next: next}
}

// Len returns the number of entries.
func (x *index[K, V]) Len() int { return x.n }

// bucket returns the bucket of a key. The number of buckets lies between two powers of two. If the key's bucket in the larger table
// does not exist yet, the key is in its bucket of the smaller table.
func (x *index[K, V]) bucket(k K) **V {
	mask := uint64(1)<<bits.Len(uint(len(x.buckets)-1)) - 1
	i := maphash.Comparable(x.seed, k) & mask
	if i >= uint64(len(x.buckets)) {
		i &= mask >> 1
	}
	return &x.buckets[i]
}

// Find returns the newest entry with a key, or nil.
func (x *index[K, V]) Find(k K) *V {
	v := *x.bucket(k)
	for v != nil && x.key(v) != k {
		v = *x.next(v)
	}
	return v
}

// Add inserts an entry. The key must not change while the entry is in the index.
func (x *index[K, V]) Add(v *V) {
	if x.n++; x.n > len(x.buckets) {
		x.split()
	}
	x.push(v)
}

func (x *index[K, V]) push(v *V) {
	b := x.bucket(x.key(v))
	*x.next(v) = *b
	*b = v
}

// split adds a bucket and moves its entries there. All of them come from one bucket.
func (x *index[K, V]) split() {
	added := len(x.buckets)
	from := added &^ (1 << (bits.Len(uint(added)) - 1))
	var kept, moved *V
	tail, movedTail := &kept, &moved // both lists keep their order, so that the newest entry of a key stays first
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

// Remove removes an entry if it is in the index.
func (x *index[K, V]) Remove(v *V) {
	for at := x.bucket(x.key(v)); *at != nil; at = x.next(*at) {
		if *at == v {
			*at = *x.next(v)
			*x.next(v) = nil
			x.n--
			return
		}
	}
}
