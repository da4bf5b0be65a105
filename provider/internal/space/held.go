package space

import "math/bits"

// Held is a packet that waits behind a gap. Its contents are copied out of its frame, so that a peer that leaves a gap open takes
// memory of the process, but no frames of the receive ring.
type Held struct {
	From, To Place
	Data     []byte // base header and contents
	CE       bool
}

// key implements keyed. Packets are sorted by the stream offset where they begin; they may overlap.
func (h Held) key() Place { return h.From }

// Gaps holds the packets of one space that wait behind gaps, in the order of their stream offsets. The zero value is empty.
type Gaps struct {
	account *Account
	held    ordered[Held]
	bytes   int // memory of these packets
}

// Begin sets the account that pays for the packets. Gaps must be empty.
func (g *Gaps) Begin(a *Account) { g.account = a }

// The memory of a packet has a power of two as its size.
const (
	smallest = 11 // 2048 bytes
	classes  = 6  // to 65536
	maxSpare = 1 << 20
)

// class returns the index of the smallest size that holds n bytes.
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

// put returns memory to the store.
func (s *Store) put(b []byte) {
	s.used -= cap(b)
	if s.spared+cap(b) > maxSpare {
		return
	}
	k := class(cap(b))
	s.spare[k] = append(s.spare[k], b)
	s.spared += cap(b)
}

// End returns the stream offset behind the last packet. Gaps must not be empty.
func (g *Gaps) End() Place { return g.held.last().To }

// Empty reports whether no packet waits.
func (g *Gaps) Empty() bool { return g.held.len() == 0 }

// Len returns the number of packets.
func (g *Gaps) Len() int { return g.held.len() }

// First returns the packet with the lowest stream offset. It is valid until the next Hold or Release. Gaps must not be empty.
func (g *Gaps) First() *Held { return g.held.get(g.held.front()) }

// Has reports whether one packet contains everything from one stream offset to another.
func (g *Gaps) Has(from, to Place) bool {
	at := g.held.search(from)
	if g.held.has(at) {
		if h := g.held.get(at); h.From == from {
			return !h.To.Before(to)
		}
	}
	h := g.held.before(at)
	return h != nil && !h.To.Before(to)
}

// Hold adds a packet with room for n bytes, which the caller fills. It returns nil if the connection has used up its share of the
// store. mine is the memory of the connection's other Gaps.
func (g *Gaps) Hold(s *Store, from, to Place, n, mine int) *Held {
	size := 1 << (class(n) + smallest)
	if !s.has(g.account, size, mine+g.bytes) {
		return nil
	}
	g.bytes += size
	g.account.add(size)
	return g.held.get(g.held.insert(g.held.search(from), Held{From: from, To: to, Data: s.get(n)}))
}

// Take removes and returns the packet with the lowest stream offset. The caller returns its memory with Release.
func (g *Gaps) Take() Held {
	h := *g.First()
	g.held.remove(g.held.front())
	g.bytes -= cap(h.Data)
	g.account.add(-cap(h.Data))
	return h
}

// Bytes returns the memory of all packets.
func (g *Gaps) Bytes() int { return g.bytes }

// Release returns the memory of a packet that Take removed.
func (s *Store) Release(h *Held) { s.put(h.Data) }

// Drop discards all packets and returns their number.
func (g *Gaps) Drop(s *Store) (n int) {
	for ; !g.Empty(); n++ {
		h := g.Take()
		s.Release(&h)
	}
	g.held = ordered[Held]{}
	return n
}
