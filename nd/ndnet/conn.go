package ndnet

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// depth is how many receives a connection posts, and how many requests it may have outstanding.
const depth = 8

// The control block of a connection: receives, the headers of outstanding messages, and the first ring.
const (
	headerSlot   = 32
	headersAt    = depth * messageLen
	firstRingAt  = headersAt + depth*headerSlot
	controlBytes = firstRingAt + minRing
)

const _ uint = -(controlBytes & (controlBytes - 1)) // a block of the pool: a power of two

// Conn is a net.Conn with half close. All methods may be called from any goroutine.
type Conn struct {
	network       *Network
	connector     *nd.Connector
	cq            *nd.CompletionQueue
	qp            *nd.QueuePair
	local, remote netip.AddrPort
	control       block

	mu      sync.Mutex // guards the fields below
	reading turn       // one Read at a time; it may look at the incoming ring without mu
	writing turn       // one Write at a time; it may fill the space of the send ring without mu
	waiting attendance
	failed  error // why the connection is lost
	closed  bool  // Close was called
	closing bool  // Close has not returned
	lingers int   // argument of SetLinger
	keep    *keepAlive

	in       incoming
	inside   rings // the memory of in
	credits  credits
	deaf     bool // received data is discarded: CloseRead
	copying  bool // a Read or WriteTo copies received bytes without mu: the peer may not write there
	ended    bool // the peer shut down writing
	gone     bool // the peer reads no more
	parted   bool // a Write has ended after the peer's Close: further ones fail
	readTime deadline
	mostRead int // largest ring of in, bytes

	out       outgoing
	send      sender
	room      roomProbe
	shut      bool // this side shut down writing
	writeTime deadline
	mostWrite int // largest ring of send, bytes
	results   [4]nd.Result
}

// newConn makes an unconnected connection. It owns k, or makes a connector if k is nil.
func (n *Network) newConn(k *nd.Connector) (_ *Conn, err error) {
	c := &Conn{network: n, connector: k, lingers: -1, mostRead: n.cfg.MaxBuffer, mostWrite: n.cfg.MaxBuffer}
	c.waiting.changed.L, c.reading.free.L, c.writing.free.L = &c.mu, &c.mu, &c.mu
	n.hold()
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if k == nil {
		if c.connector, err = n.adapter.CreateConnector(); err != nil {
			return nil, err
		}
	}
	if c.cq, err = n.adapter.CreateCompletionQueue(2 * depth); err != nil {
		return nil, err
	}
	c.qp, err = n.adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: c.cq, InitiatorCQ: c.cq, ReceiveDepth: depth, InitiatorDepth: depth})
	if err != nil {
		return nil, err
	}
	if c.control, err = n.pool.get(controlBytes); err != nil {
		return nil, err
	}
	c.in.now = c.firstRing()
	for i := range depth {
		if err = c.postReceive(uint64(i)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// firstRing returns the ring that a connection always has. It receives bytes that arrive in messages; the peer cannot write to it.
func (c *Conn) firstRing() []byte { return c.control.mem[firstRingAt:] }

func (c *Conn) receiveBuffer(i uint64) []byte {
	return c.control.mem[i*messageLen:][:messageLen]
}

func (c *Conn) postReceive(i uint64) error {
	return c.qp.Receive(i, []nd.SGE{c.control.sge(c.receiveBuffer(i))})
}

func (c *Conn) params() nd.ConnectParams {
	g := greeting{receives: depth, ring: grant{size: minRing}}
	return nd.ConnectParams{PrivateData: g.encode()}
}

// greet handles the peer's greeting.
func (c *Conn) greet() error {
	data, err := c.connector.PrivateData()
	if err != nil {
		return err
	}
	g, err := parseGreeting(data)
	if err != nil {
		return violated(err)
	}
	c.credits = newCredits(g.receives)
	c.out.ring = g.ring
	return nil
}

// begin records the addresses. It must be called before the establishment ends, because they exist only as long as the connection: one that
// is over by then is not established.
func (c *Conn) begin() {
	c.local, _ = c.connector.LocalAddress()
	c.remote, _ = c.connector.PeerAddress()
}

// fail records that the connection is lost. The caller holds mu.
func (c *Conn) fail(err error) {
	if c.failed == nil {
		c.failed = err
		c.wake()
	}
}

// LocalAddr returns the local address and ND port, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.network.tcpAddr(c.local) }

// RemoteAddr returns the peer's address and ND port, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.network.tcpAddr(c.remote) }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readTime, &c.writeTime)
}

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded; zero is never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readTime) }

// SetWriteDeadline sets the time after which Write fails with os.ErrDeadlineExceeded; zero is never. Bytes that Write has accepted by then
// are still delivered.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writeTime) }

func (c *Conn) setDeadlines(t time.Time, ds ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	past := false
	for _, d := range ds {
		past = d.set(t, c) || past
	}
	if past {
		c.wake()
	}
	return nil
}

// expired wakes waiting calls when a deadline passes.
func (c *Conn) expired(d *deadline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.expire() {
		c.wake()
	}
}
