package provider

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
)

// directory is the leader's table of listeners and endpoints by ND address and port, and of connections by fields of handshake
// packets and ICMP errors. Established connections are found by id (connTable.lookup).
type directory struct {
	listeners map[addrPort]*Listener
	ports     ndports.Ports
	tuples    index[tuple, conn]   // connections by ND endpoints
	peers     index[peerKey, conn] // connections by their peers' ids
	asking    map[asked]*conn      // unanswered requests
}

func newDirectory(space ndports.PortSpace) directory {
	return directory{
		listeners: map[addrPort]*Listener{}, ports: ndports.New(space),
		tuples: newIndex(func(c *conn) tuple { return c.identity.tuple() }, func(c *conn) **conn { return &c.places.nextTuple }),
		peers:  newIndex(func(c *conn) peerKey { return c.identity.peerKey() }, func(c *conn) **conn { return &c.places.nextPeer }),
		asking: map[asked]*conn{},
	}
}

// listener returns the listener of an endpoint, or of the wildcard address, or nil.
func (d *directory) listener(at addrPort) *Listener {
	if l := d.listeners[at]; l != nil {
		return l
	}
	return d.listeners[addrPort{Port: at.Port}]
}

// use returns what PortUse contains.
func (d *directory) use(at addrPort) (listening bool, users int) {
	anywhere := addrPort{}.IP
	for other, n := range d.ports.All() {
		if other.Port == at.Port && (other.IP == at.IP || other.IP == anywhere || at.IP == anywhere) {
			users += n
			listening = listening || d.listeners[other] != nil
		}
	}
	return listening, users
}

// ask records an unanswered request of a connection.
func (d *directory) ask(c *conn) { d.asking[c.identity.asked()] = c }

// answered removes the request of a connection.
func (d *directory) answered(c *conn) {
	if d.asking[c.identity.asked()] == c { // another connection may have drawn the same port meanwhile
		delete(d.asking, c.identity.asked())
	}
}

// empty reports whether the tables are empty.
func (d *directory) empty() bool {
	return d.peers.Len() == 0 && d.tuples.Len() == 0 && d.ports.Empty() && len(d.listeners) == 0 && len(d.asking) == 0
}

// PortUse says why an endpoint is in use: whether a listener listens on it, and how many listeners, connectors and shared endpoints are
// bound to it.
func (e *Engine) PortUse(at Endpoint) (listening bool, users int) {
	return e.directory.use(at)
}

// SharedEndpoint is a local endpoint from which many connections are made, to different remote ones (ND specification 6.4). The
// leading engine's owner uses it.
type SharedEndpoint struct {
	engine *Engine
	at     addrPort
	closed bool
}

// NewSharedEndpoint takes a local endpoint, port 0 for a free ephemeral one.
func (e *Engine) NewSharedEndpoint(at addrPort) (*SharedEndpoint, Outcome) {
	at, o := e.directory.ports.Take(at, false, e.rng)
	if o != OutcomeSuccess {
		return nil, o
	}
	return &SharedEndpoint{engine: e, at: at}, OutcomeSuccess
}

// Local returns the endpoint.
func (s *SharedEndpoint) Local() Endpoint { return s.at }

// Close frees the endpoint once no connector has it.
func (s *SharedEndpoint) Close() {
	if !s.closed {
		s.closed = true
		s.engine.directory.ports.Release(s.at)
	}
}

// connTable holds the connections of a group by slot. The leader writes; every engine looks up.
type connTable struct {
	secret uint32                                 // of connection ids
	slots  atomic.Pointer[[]atomic.Pointer[conn]] // replaced when it grows; never empties a slot that the leader did not
	used   uint32                                 // slots that were ever taken; the leader's
	free   []uint32                               // the leader's
	ended  guard.Ended                            // ended connections that still answer; the leader's
}

// at returns the connection in a slot, or nil.
func (t *connTable) at(slot uint32) *conn {
	slots := *t.slots.Load()
	if slot >= uint32(len(slots)) {
		return nil
	}
	return slots[slot].Load()
}

// idOf makes the id of a connection in a slot (PROTOCOL §6): slot XOR secret below, 40 random bits above.
func (t *connTable) idOf(slot uint32, random uint64) uint64 {
	return random<<24 | uint64((slot^t.secret)&(1<<24-1))
}

// lookup finds a connection by its id (PROTOCOL §6): the slot, then all 64 bits.
func (t *connTable) lookup(id uint64) *conn {
	c := t.at(uint32(id^uint64(t.secret)) & (1<<24 - 1))
	if c == nil || c.identity.id != id {
		return nil
	}
	return c
}

// over notes a connection that lingers from now on. Beyond guard.MaxEnded the oldest is forgotten at once. The leader calls it.
func (t *connTable) over(c *conn) {
	for t.ended.Len() > 0 {
		oldest := t.lookup(t.ended.Oldest())
		if oldest != nil && oldest != c && t.ended.Len() < guard.MaxEnded {
			break
		}
		t.ended.Pop()
		if oldest != nil && oldest != c {
			t.forget(oldest)
		}
	}
	t.ended.Push(c.identity.id)
}

// forget gives back a connection that still answered.
func (t *connTable) forget(c *conn) {
	c.engine.stats.Forgotten++
	c.free()
}

// makeRoom forgets the oldest lingering connection, because its slot is needed. The leader calls it.
func (t *connTable) makeRoom() {
	for t.ended.Len() > 0 {
		if oldest := t.lookup(t.ended.Pop()); oldest != nil {
			t.forget(oldest)
			return
		}
	}
}

// all yields every connection of the table.
func (t *connTable) all(yield func(*conn) bool) {
	slots := *t.slots.Load()
	for i := range slots {
		if c := slots[i].Load(); c != nil && !yield(c) {
			return
		}
	}
}

// alloc reserves a slot; ok is false when limit are taken.
func (t *connTable) alloc(limit uint32) (slot uint32, ok bool) {
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
		return slot, true
	}
	if t.used >= limit {
		return 0, false
	}
	slot = t.used
	t.used++
	if slots := *t.slots.Load(); slot == uint32(len(slots)) {
		// A reader of the old slice may find a connection that has ended meanwhile. It then asks its home engine, the leader,
		// about it.
		grown := make([]atomic.Pointer[conn], max(64, 2*len(slots)))
		for i := range slots {
			grown[i].Store(slots[i].Load())
		}
		t.slots.Store(&grown)
	}
	return slot, true
}

// full reports whether only a slot that is given back could be taken.
func (t *connTable) full(limit uint32) bool { return len(t.free) == 0 && t.used >= limit }

func (t *connTable) put(slot uint32, c *conn) { (*t.slots.Load())[slot].Store(c) }

// give frees a slot.
func (t *connTable) give(slot uint32) {
	t.put(slot, nil)
	t.free = append(t.free, slot)
}
