package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/index"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
)

// directory is the leader's lookup of listeners and endpoints by ND address and port, and of connections by the fields in handshake
// packets and ICMP errors. Established connections are found by their id alone (connTable.lookup).
type directory struct {
	listeners map[addrPort]*Listener
	ports     ndports.Ports
	tuples    index.Index[tuple, conn]   // connections by ND endpoints
	peers     index.Index[peerKey, conn] // and by what their peers call them
	asking    map[asked]*conn            // requests that wait for an answer
}

func newDirectory(space ndports.Space) directory {
	return directory{
		listeners: map[addrPort]*Listener{}, ports: ndports.New(space),
		tuples: index.New((*conn).tuple, func(c *conn) **conn { return &c.nextTuple }),
		peers:  index.New((*conn).peerKey, func(c *conn) **conn { return &c.nextPeer }),
		asking: map[asked]*conn{},
	}
}

// listener is who listens at an endpoint, or on all addresses; nil when nobody does.
func (d *directory) listener(at addrPort) *Listener {
	if l := d.listeners[at]; l != nil {
		return l
	}
	return d.listeners[addrPort{Port: at.Port}]
}

// use is PortUse.
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

// ask notes the request of a connection that waits for an answer to it.
func (d *directory) ask(c *conn) { d.asking[c.asked()] = c }

// answered forgets the request of a connection.
func (d *directory) answered(c *conn) {
	if d.asking[c.asked()] == c { // another one may have drawn the same port since
		delete(d.asking, c.asked())
	}
}

// empty reports whether nothing is left in it.
func (d *directory) empty() bool {
	return d.peers.Len() == 0 && d.tuples.Len() == 0 && d.ports.Empty() && len(d.listeners) == 0 && len(d.asking) == 0
}
