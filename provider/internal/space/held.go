package space

import (
	"math/bits"
	"slices"
)

// Held is a packet that waits behind a gap: its contents, copied out of the frame that it came in, so that whoever leaves a gap open
// keeps memory of the process and never frames of the receive ring.
type Held struct {
	From, To Place
	Data     []byte // base header and contents
	Placed   bool   // its bytes are where they belong; what else it does waits
	CE       bool
}

// Gaps are the packets of one space that wait behind gaps, in the order of their places. Its zero value is empty.
//
// They lie in chunks, so that a packet moves those of one chunk at the most, wherever its place is: a peer that leaves holes from the last to the
// first, or in any other order, costs no more for each packet than one that leaves a single hole.
type Gaps struct {
	account *Account
	chunks  [][]Held // of 1 to perChunk packets each, in order; of none only where it is the only one
	first   int      // of the first chunk; what is before has left
	n       int      // packets
	bytes   int      // of memory
	spare   []Held   // memory of a chunk that has left
}

// Begin charges the memory of packets to an account. No packet may wait.
func (g *Gaps) Begin(a *Account) { g.account = a }

// perChunk is how many packets a chunk holds at the most. A full one is split in halves, but for the last one where packets come in order.
const perChunk = 64

// Memory of packets comes in sizes of powers of two.
const (
	smallest = 11 // 2048 bytes
	classes  = 6  // to 65536
	maxSpare = 1 << 20
)

// class returns which size holds n bytes.
func class(n int) int { return max(bits.Len(uint(n-1))-smallest, 0) }

// get returns memory for n bytes.
func (s *Store) get(n int) []byte {
	k := class(n)
	s.used += 1 << (k + smallest)
	list := s.spare[k]
	if len(list) == 0 {
		return make([]byte, n, 1<<(k+smallest))
	}
	b := list[len(list)-1]
	s.spare[k] = list[:len(list)-1]
	s.spared -= cap(b)
	return b[:n]
}

// put takes memory back.
func (s *Store) put(b []byte) {
	s.used -= cap(b)
	if s.spared+cap(b) > maxSpare {
		return
	}
	k := class(cap(b))
	s.spare[k] = append(s.spare[k], b)
	s.spared += cap(b)
}

// End returns the place behind the last packet. Empty must be false.
func (g *Gaps) End() Place {
	last := g.chunks[len(g.chunks)-1]
	return last[len(last)-1].To
}

// Empty says whether no packet waits.
func (g *Gaps) Empty() bool { return g.n == 0 }

// Len returns how many packets wait.
func (g *Gaps) Len() int { return g.n }

// First returns the packet with the lowest place. Empty must be false. It is valid until the next Hold or Release.
func (g *Gaps) First() *Held { return &g.chunks[0][g.first] }

// Has says whether all from one place to another waits in one packet.
func (g *Gaps) Has(from, to Place) bool {
	if g.n == 0 {
		return false
	}
	c, i := g.search(from)
	if chunk := g.chunks[c]; i < len(chunk) && chunk[i].From == from {
		return !chunk[i].To.Before(to)
	}
	switch low := g.low(c); {
	case i > low:
		return !g.chunks[c][i-1].To.Before(to)
	case c > 0:
		before := g.chunks[c-1]
		return !before[len(before)-1].To.Before(to)
	}
	return false
}

// low is the index of the first packet of a chunk.
func (g *Gaps) low(chunk int) int {
	if chunk == 0 {
		return g.first
	}
	return 0
}

// search returns the chunk and the index in it of the first packet that does not begin before a place. Behind all packets it is the end of the last
// chunk. There must be a chunk.
func (g *Gaps) search(at Place) (chunk, i int) {
	last := len(g.chunks) - 1
	if tail := g.chunks[last]; len(tail) > 0 && tail[len(tail)-1].From.Before(at) {
		return last, len(tail) // in the order of sending
	}
	low, high := 0, last
	for low < high {
		middle := (low + high) / 2
		if c := g.chunks[middle]; c[len(c)-1].From.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	chunk = low
	low, high = g.low(chunk), len(g.chunks[chunk])
	for low < high {
		middle := (low + high) / 2
		if g.chunks[chunk][middle].From.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return chunk, low
}

// Hold makes room for a packet of n bytes and returns it, to be filled. It returns nil when the connection has its share of the store: mine
// is what its other gaps take.
func (g *Gaps) Hold(s *Store, from, to Place, n, mine int) *Held {
	size := 1 << (class(n) + smallest)
	if !s.has(g.account, size, mine+g.bytes) {
		return nil
	}
	if len(g.chunks) == 0 {
		g.chunks = append(g.chunks, nil)
	}
	c, i := g.search(from)
	if c == 0 && g.first > 0 {
		g.chunks[0] = slices.Delete(g.chunks[0], 0, g.first)
		i, g.first = i-g.first, 0
	}
	if len(g.chunks[c]) == perChunk {
		c, i = g.split(c, i)
	}
	g.chunks[c] = slices.Insert(g.chunks[c], i, Held{From: from, To: to, Data: s.get(n)})
	g.n++
	g.bytes += size
	g.account.add(size)
	return &g.chunks[c][i]
}

// split makes room in a full chunk for a packet at an index of it, and returns where that is now.
func (g *Gaps) split(c, i int) (chunk, at int) {
	full, half := g.chunks[c], perChunk/2
	if c == len(g.chunks)-1 && i == perChunk {
		half = perChunk // the next ones come behind it as well
	}
	behind := append(slices.Grow(g.spare, perChunk), full[half:]...)
	g.spare = nil
	clear(full[half:])
	g.chunks[c] = full[:half]
	g.chunks = slices.Insert(g.chunks, c+1, behind)
	if i < half {
		return c, i
	}
	return c + 1, i - half
}

// Take takes the packet with the lowest place out. Its memory is given back with Release.
func (g *Gaps) Take() Held {
	chunk := g.chunks[0]
	h := chunk[g.first]
	chunk[g.first] = Held{}
	g.n--
	g.bytes -= cap(h.Data)
	g.account.add(-cap(h.Data))
	if g.first++; g.first < len(chunk) {
		return h
	}
	g.first = 0
	if len(g.chunks) == 1 {
		g.chunks[0] = chunk[:0]
		return h
	}
	g.chunks = slices.Delete(g.chunks, 0, 1)
	g.spare = chunk[:0]
	return h
}

// Bytes returns the memory that the packets take.
func (g *Gaps) Bytes() int { return g.bytes }

// Release gives the memory of a packet back that was taken out.
func (s *Store) Release(h *Held) { s.put(h.Data) }

// Drop gives up all packets, and returns how many there were.
func (g *Gaps) Drop(s *Store) (n int) {
	for ; !g.Empty(); n++ {
		h := g.Take()
		s.Release(&h)
	}
	g.chunks, g.spare = nil, nil
	return n
}
