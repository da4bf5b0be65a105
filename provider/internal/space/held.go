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
type Gaps struct {
	list  []Held
	first int // of list; what is before has left
	bytes int // of memory
}

// Store is the memory of the packets that wait, of all connections of an engine. It is bounded: a connection may have as much as is
// free (the dynamic threshold of Choudhury and Hahne), so that however many take all they can get, there is some left for another.
type Store struct {
	limit, used int
	spare       [classes][][]byte
	spared      int // bytes in spare
}

// Memory of packets comes in sizes of powers of two.
const (
	smallest = 11 // 2048 bytes
	classes  = 6  // to 65536
	maxSpare = 1 << 20
)

// NewStore makes a store of at most limit bytes.
func NewStore(limit int) Store { return Store{limit: limit} }

// Used returns the bytes that packets take; zero when none waits.
func (s *Store) Used() int { return s.used }

// Limit returns the bytes that packets may take.
func (s *Store) Limit() int { return s.limit }

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

// Empty says whether no packet waits.
func (g *Gaps) Empty() bool { return g.first == len(g.list) }

// Len returns how many packets wait.
func (g *Gaps) Len() int { return len(g.list) - g.first }

// First returns the packet with the lowest place. Empty must be false. It is valid until the next Hold or Release.
func (g *Gaps) First() *Held { return &g.list[g.first] }

// Has says whether all from one place to another waits in one packet.
func (g *Gaps) Has(from, to Place) bool {
	i := g.search(from)
	if i < len(g.list) && g.list[i].From == from {
		return !g.list[i].To.Before(to)
	}
	return i > g.first && !g.list[i-1].To.Before(to)
}

// search returns the index of the first packet that does not begin before a place.
func (g *Gaps) search(at Place) int {
	low, high := g.first, len(g.list)
	if high > low && g.list[high-1].From.Before(at) {
		return high // in the order of sending
	}
	for low < high {
		middle := (low + high) / 2
		if g.list[middle].From.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Hold makes room for a packet of n bytes and returns it, to be filled. It returns nil when the connection has its share of the store: mine
// is what its other gaps take.
func (g *Gaps) Hold(s *Store, from, to Place, n, mine int) *Held {
	size := 1 << (class(n) + smallest)
	if mine+g.bytes+size > s.limit-s.used {
		return nil
	}
	if g.first > 0 && len(g.list) == cap(g.list) {
		kept := copy(g.list, g.list[g.first:])
		clear(g.list[kept:])
		g.list, g.first = g.list[:kept], 0
	}
	i := g.search(from)
	g.list = slices.Insert(g.list, i, Held{From: from, To: to, Data: s.get(n)})
	g.bytes += size
	return &g.list[i]
}

// Take takes the packet with the lowest place out. Its memory is given back with Release.
func (g *Gaps) Take() Held {
	h := g.list[g.first]
	g.list[g.first] = Held{}
	g.bytes -= cap(h.Data)
	if g.first++; g.first == len(g.list) {
		g.list, g.first = g.list[:0], 0
	}
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
	g.list = nil
	return n
}
