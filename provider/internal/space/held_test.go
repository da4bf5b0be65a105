package space

import (
	"encoding/binary"
	"testing"
)

// receiver receives segments of a stream like the receiving side of a space. It counts how often each byte was executed.
type receiver struct {
	*stream
	t       *testing.T
	store   *Store
	gaps    Gaps
	next    int
	carried map[Place]int
}

// carry executes the part of a segment that was not executed yet, from the next byte on.
func (r *receiver) carry(from, to int, data []byte) {
	r.t.Helper()
	for i := r.next; i < to; i++ {
		if got := binary.BigEndian.Uint32(data[4*(i-from):]); got != uint32(i) {
			r.t.Fatalf("byte %d has the contents of %d", i, got)
		}
		r.carried[r.at(i)]++
	}
	r.next = max(r.next, to)
}

// take receives a segment, and executes segments that waited for it.
func (r *receiver) take(from, to int) (kept bool) {
	r.t.Helper()
	var data []byte
	for i := from; i < to; i++ {
		data = binary.BigEndian.AppendUint32(data, uint32(i))
	}
	switch {
	case to <= r.next:
		return true
	case from > r.next:
		if r.gaps.Has(r.at(from), r.at(to)) {
			return true
		}
		h := r.gaps.Hold(r.store, r.at(from), r.at(to), len(data), 0)
		if h == nil {
			return false
		}
		copy(h.Data, data)
		return true
	}
	r.carry(from, to, data)
	for !r.gaps.Empty() && !r.at(r.next).Before(r.gaps.First().From) {
		h := r.gaps.Take()
		r.carry(r.index[h.From], r.index[h.To], h.Data)
		r.store.Release(&h)
	}
	return true
}

// check compares the memory of the gaps with the store's account.
func (r *receiver) check() {
	r.t.Helper()
	used, last := 0, Place(0)
	for at := r.gaps.held.front(); r.gaps.held.has(at); at = r.gaps.held.after(at) {
		h := r.gaps.held.get(at)
		used += cap(h.Data)
		if last != 0 && h.From.Before(last) {
			r.t.Fatalf("%x waits behind %x", h.From, last)
		}
		if last = h.From; !r.at(r.next).Before(h.From) {
			r.t.Fatalf("%x waits although %x is next", h.From, r.at(r.next))
		}
	}
	if used != r.gaps.Bytes() || r.gaps.Empty() != (r.gaps.Len() == 0) {
		r.t.Fatalf("%d packets take %d bytes, %d are counted", r.gaps.Len(), used, r.gaps.Bytes())
	}
}

// Segments arrive in any order, overlap and repeat. Each byte is executed once, in order and with its own contents, also if message
// numbers wrap around. No memory is left.
func TestGapsAgainstAMapOfBytes(t *testing.T) {
	store := NewStore(1 << 20)
	for seed := range uint64(60) {
		r := &receiver{stream: newStream(seed, 80), t: t, store: &store, carried: map[Place]int{}}
		for r.next < len(r.places) {
			from, to := r.piece(len(r.places), 1+r.rng.IntN(40))
			if r.rng.IntN(3) == 0 { // now and then the missing segment
				from = max(r.next-r.rng.IntN(5), 0)
				to = min(r.next+1+r.rng.IntN(8), len(r.places))
			}
			r.take(from, to)
			r.check()
			if store.Used() != r.gaps.Bytes() {
				t.Fatalf("%d bytes are counted, %d are taken", store.Used(), r.gaps.Bytes())
			}
		}
		for _, p := range r.places {
			if r.carried[p] != 1 {
				t.Fatalf("seed %d: %x was carried out %d times", seed, p, r.carried[p])
			}
		}
		if store.Used() != 0 || !r.gaps.Empty() {
			t.Fatalf("seed %d: %d packets of %d bytes are left", seed, r.gaps.Len(), store.Used())
		}
	}
}

// Two directions share a store, and neither counts the other's packets. A full store accepts no segment, and accepted segments are
// intact.
func TestGapsInASmallStore(t *testing.T) {
	store := NewStore(10 << smallest)
	for seed := range uint64(30) {
		refused := 0
		r := [2]*receiver{}
		for i := range r {
			r[i] = &receiver{stream: newStream(2*seed+uint64(i), 60), t: t, store: &store, carried: map[Place]int{}}
		}
		for n := 0; r[0].next < len(r[0].places) || r[1].next < len(r[1].places); n++ {
			x := r[n%2]
			if x.next == len(x.places) {
				continue
			}
			from, to := x.piece(len(x.places), 10)
			if !x.take(from, to) {
				refused++
				x.take(x.next, min(x.next+5, len(x.places)))
			}
			x.check()
			if store.Used() != r[0].gaps.Bytes()+r[1].gaps.Bytes() || store.Used() > store.Limit() {
				t.Fatalf("seed %d: %d bytes are counted", seed, store.Used())
			}
		}
		for _, x := range r {
			for _, p := range x.places {
				if x.carried[p] != 1 {
					t.Fatalf("seed %d: %x was carried out %d times", seed, p, x.carried[p])
				}
			}
		}
		if store.Used() != 0 || refused == 0 {
			t.Fatalf("seed %d: %d bytes are left, %d pieces had no room", seed, store.Used(), refused)
		}
	}
}

// In whatever order a peer leaves gaps, the cost of a packet does not grow with the number of waiting packets.
func TestHolesInAnyOrder(t *testing.T) {
	const packets = 12000
	for name, order := range anyOrder(packets) {
		store := NewStore(1 << 30)
		var g Gaps
		for i := range packets {
			at := At(uint32(2*order(i)), 0)
			if g.Has(at, at.NextMessage()) || g.Hold(&store, at, at.NextMessage(), 100, 0) == nil || !g.Has(at, at.NextMessage()) {
				t.Fatalf("%s: packet %d is not held as a new one", name, i)
			}
			checkChunks(t, name, &g.held, 32)
		}
		for i := range uint32(packets) {
			if h := g.Take(); h.From != At(2*i, 0) {
				t.Fatalf("%s: %x is number %d", name, h.From, i)
			} else {
				store.Release(&h)
			}
		}
		if !g.Empty() || store.Used() != 0 || g.Bytes() != 0 {
			t.Errorf("%s: %d packets of %d bytes are left", name, g.Len(), store.Used())
		}
	}
}

// A segment inside one stored packet is redundant. A segment across two stored packets is not.
func TestGapsKnowWhatTheyHave(t *testing.T) {
	store := NewStore(1 << 20)
	var g Gaps
	for _, h := range [][2]uint32{{10, 20}, {20, 30}, {40, 60}, {45, 50}} {
		g.Hold(&store, At(0, h[0]), At(0, h[1]), 100, 0)
	}
	for _, c := range []struct {
		from, to uint32
		has      bool
	}{{10, 20, true}, {12, 15, true}, {9, 12, false}, {15, 25, false}, {20, 30, true}, {30, 40, false}, {40, 60, true}, {41, 44, true}, {45, 50, true}, {0, 5, false}, {70, 80, false}} {
		if got := g.Has(At(0, c.from), At(0, c.to)); got != c.has {
			t.Errorf("has %d to %d: %v", c.from, c.to, got)
		}
	}
	if n := g.Drop(&store); n != 4 || !g.Empty() || g.Bytes() != 0 || store.Used() != 0 {
		t.Errorf("%d packets were given up, %d bytes are left", n, store.Used())
	}
}

// A connection may use as much memory as is free. A single connection gets half of the store. If many take all they can get, each
// gets the same, and as much is free for another.
func TestShareOfTheStore(t *testing.T) {
	const packets, size = 120, 1 << smallest
	for _, conns := range []int{1, 2, 3, 7, 11} {
		store := NewStore(packets * size)
		gaps := make([]Gaps, conns)
		for n, taken := 0, true; taken; n++ {
			taken = false
			for i := range gaps {
				if gaps[i].Hold(&store, At(0, uint32(n)), At(0, uint32(n)+1), size, 0) != nil {
					taken = true
				}
			}
		}
		share := packets / (conns + 1) * size
		for i := range gaps {
			if got := gaps[i].Bytes(); got < share-size || got > share+size {
				t.Errorf("%d connections: connection %d has %d bytes, its share is %d", conns, i, got, share)
			}
		}
		if left := store.Limit() - store.Used(); left < share-conns*size {
			t.Errorf("%d connections: %d bytes are left, want %d", conns, left, share)
		}
		var late Gaps
		if late.Hold(&store, At(0, 0), At(0, 1), size, 0) == nil {
			t.Errorf("%d connections: nothing is left for another one", conns)
		}
	}
}

// The other space of a connection counts for its share, and so does memory that is larger than its packet.
func TestShareOfBothSpaces(t *testing.T) {
	const size = 1 << smallest
	store := NewStore(10 * size)
	var one, other Gaps
	for n := range uint32(4) {
		if one.Hold(&store, At(n, 0), At(n, 1), 30, other.Bytes()) == nil {
			t.Fatalf("no room for packet %d", n)
		}
	}
	if other.Hold(&store, At(0, 0), At(0, 1), 2*size+1, one.Bytes()) != nil {
		t.Error("more than the share")
	}
	if h := other.Hold(&store, At(0, 0), At(0, 1), size, one.Bytes()); h == nil || len(h.Data) != size || store.Used() != 5*size {
		t.Errorf("%d bytes are taken", store.Used())
	}
	if other.Hold(&store, At(1, 0), At(1, 1), 30, one.Bytes()) != nil {
		t.Error("more than what is free")
	}
	if n := one.Drop(&store); n != 4 || store.Used() != size {
		t.Errorf("%d packets were given up, %d bytes are left", n, store.Used())
	}
}

// Memory of released packets is reused. At most maxSpare of it is kept, whatever sizes waited.
func TestSpareMemoryIsBounded(t *testing.T) {
	const largest = 1 << (smallest + classes - 1)
	store := NewStore(64 << 20)
	fill := func(n int) {
		var g Gaps
		for i := range uint32(100) {
			if h := g.Hold(&store, At(i, 0), At(i+1, 0), n, 0); h == nil || len(h.Data) != n {
				t.Fatalf("no room for %d bytes", n)
			}
		}
		g.Drop(&store)
		kept := 0
		for k, list := range store.spare {
			for _, b := range list {
				if kept += cap(b); cap(b) != 1<<(k+smallest) {
					t.Fatalf("%d bytes among those of size %d", cap(b), k)
				}
			}
		}
		if kept != store.spared || kept > maxSpare || store.Used() != 0 {
			t.Fatalf("%d bytes are kept, %d are counted, %d are taken", kept, store.spared, store.Used())
		}
	}
	for _, n := range []int{1, 24, 1500, 2048, 2049, 9000, 65507, largest, 100, 5000} {
		fill(n)
	}
	if store.spared == 0 {
		t.Error("nothing is kept")
	}
	var g Gaps
	waits := func() {
		for i := range uint32(4) {
			g.Hold(&store, At(i, 0), At(i+1, 0), 1400, 0)
		}
		for !g.Empty() {
			h := g.Take()
			store.Release(&h)
		}
	}
	waits()
	if n := testing.AllocsPerRun(100, waits); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
