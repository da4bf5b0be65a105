package space

import "math/bits"

// Held is a packet that waits behind a gap. Its contents are copied out of its frame, so that a peer that leaves a gap open occupies memory
// of the process and never frames of the receive ring.
type Held struct {
	From, To Place
	Data     []byte // base header and contents
	CE       bool
}

// key implements keyed: packets may overlap, and come in the order of where they begin.
func (h Held) key() Place { return h.From }

// Gaps are the packets of one space that wait behind gaps, in the order of their places. Its zero value is empty.
type Gaps struct {
	account *Account
	held    ordered[Held]
	bytes   int // of memory
}

// Begin charges the memory of packets to an account. No packet may wait.
func (g *Gaps) Begin(a *Account) { g.account = a }

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
func (g *Gaps) End() Place { return g.held.last().To }

// Empty says whether no packet waits.
func (g *Gaps) Empty() bool { return g.held.len() == 0 }

// Len returns how many packets wait.
func (g *Gaps) Len() int { return g.held.len() }

// First returns the packet with the lowest place. Empty must be false. It is valid until the next Hold or Release.
func (g *Gaps) First() *Held { return g.held.get(g.held.front()) }

// Has says whether all from one place to another waits in one packet.
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

// Hold makes room for a packet of n bytes and returns it, to be filled. It returns nil when the connection has its share of the store: mine
// is what its other gaps take.
func (g *Gaps) Hold(s *Store, from, to Place, n, mine int) *Held {
	size := 1 << (class(n) + smallest)
	if !s.has(g.account, size, mine+g.bytes) {
		return nil
	}
	g.bytes += size
	g.account.add(size)
	return g.held.get(g.held.insert(g.held.search(from), Held{From: from, To: to, Data: s.get(n)}))
}

// Take takes the packet with the lowest place out. Its memory is given back with Release.
func (g *Gaps) Take() Held {
	h := *g.First()
	g.held.remove(g.held.front())
	g.bytes -= cap(h.Data)
	g.account.add(-cap(h.Data))
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
	g.held = ordered[Held]{}
	return n
}
