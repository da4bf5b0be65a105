package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/index"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
)

// directory is the leader's table of listeners and endpoints by ND address and port, and of connections by fields of handshake
// packets and ICMP errors. Established connections are found by id (connTable.lookup).
type directory struct {
	listeners map[addrPort]*Listener
	ports     ndports.Ports
	tuples    index.Index[tuple, conn]   // connections by ND endpoints
	peers     index.Index[peerKey, conn] // connections by their peers' ids
	asking    map[asked]*conn            // unanswered requests
}

func newDirectory(space ndports.PortSpace) directory {
	return directory{
		listeners: map[addrPort]*Listener{}, ports: ndports.New(space),
		tuples: index.New(func(c *conn) tuple { return c.identity.tuple() }, func(c *conn) **conn { return &c.places.nextTuple }),
		peers:  index.New(func(c *conn) peerKey { return c.identity.peerKey() }, func(c *conn) **conn { return &c.places.nextPeer }),
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
