package ndnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// The bounds of Config.MaxBuffer.
const (
	minMaxBuffer     = 16 << 10
	defaultMaxBuffer = 1 << 20
)

// Config sizes connections. The zero value of a field takes its default.
type Config struct {
	// MaxBuffer is how large the buffers of a connection may grow, bytes: what waits to be sent, and what has arrived and waits to be read,
	// each. It is rounded up to a power of two of 16 KiB to 64 MiB; default 1 MiB. Buffers begin with 512 bytes, grow
	// when they hold up the peer or a Write, and are given back after seconds without traffic.
	MaxBuffer int
	// EstablishTimeout is how long a client of a listener may take to complete the handshake; 0 is 5 s. Dial completes at once. A client that
	// does not has a place in the backlog for as long.
	EstablishTimeout time.Duration
}

// stayTime is how long half of the largest ring takes to be read at 5 Gb/s: the peer tells of that.
const stayTime = time.Millisecond

// defaultEstablish is as long as the silence that ends any handshake (PROTOCOL §7.2).
const defaultEstablish = 5 * time.Second

func (c *Config) check() error {
	if c.MaxBuffer == 0 {
		c.MaxBuffer = defaultMaxBuffer
	}
	if c.EstablishTimeout <= 0 {
		c.EstablishTimeout = defaultEstablish
	}
	if c.MaxBuffer < 0 || c.MaxBuffer > maxRing {
		return fmt.Errorf("ndnet: Config.MaxBuffer is %d, want at most %d", c.MaxBuffer, maxRing)
	}
	c.MaxBuffer = bufferSize(c.MaxBuffer)
	return nil
}

// bufferSize is the size to which buffers may grow where n bytes were asked for: a power of two.
func bufferSize(n int) int {
	size := minMaxBuffer
	for size < n {
		size *= 2
	}
	return size
}

// Network makes connections and listeners on one adapter. It may be used from any goroutine.
type Network struct {
	adapter *nd.Adapter
	local   netip.Addr
	cfg     Config
	ending  ending
	hold    func()        // notes a user of the adapter, if it is shared: a connection or a listener
	drop    func()        // notes the end of one
	stay    time.Duration // how long a Write that has something left waits for the peer to read, before a goroutine does; stayTime
	later   time.Duration // how long bytes wait for the next Write before somebody looks whether they can go; laterTime
	bounds  closeBounds
	silence time.Duration // after which the transport gives a peer up; zero where the adapter is the caller's
	backlog int           // how many connections of a listener wait for Accept; somaxconn
	pool    pool
	buffers buffers

	mu        sync.Mutex
	deafUntil time.Time        // ends are not waited for until then: one was not acknowledged
	tidying   bool             // tidy comes again
	grown     map[*Conn]uint64 // connections with memory to give back, and what had moved when it was looked at last
}

// New makes a network of an adapter, which stays the caller's to close: after Wait. The error says what is wrong with cfg, or that there is
// no adapter.
func New(adapter *nd.Adapter, cfg Config) (*Network, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if adapter == nil {
		return nil, fmt.Errorf("ndnet: new network: no adapter: %w", nd.ErrInvalidParameter)
	}
	return &Network{
		adapter: adapter, local: adapter.QueryAddressList()[0], cfg: cfg, pool: pool{adapter: adapter}, grown: map[*Conn]uint64{},
		hold: func() {}, drop: func() {}, stay: stayTime, later: laterTime, bounds: usualBounds, backlog: somaxconn(),
	}, nil
}

// Wait returns when the connections of the network that were closed have delivered what was written, or are given up, and listeners that were closed have
// ended, or when ctx ends, with the context's error. It does not wait for those that are open.
func (n *Network) Wait(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("ndnet: wait: %w", errNil)
	}
	if err := n.ending.wait(ctx); err != nil {
		return fmt.Errorf("ndnet: wait: %w", err)
	}
	return nil
}

// Dial connects to an ND address such as "192.0.2.1:80": an IP address and an ND port, which has nothing to do with the ports of the host. The network's name is not looked at: callers such as net/http say "tcp".
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context, which has no effect on the connection once it is made. It is what http.Transport and gRPC
// take as their dialer. Names are resolved; of their addresses those of the adapter's family are tried.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: errNil}
	}
	name := "nd6"
	if n.local.Is4() {
		name = "nd4"
	}
	targets, err := resolve(ctx, nil, name, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: meaning(err)}
	}
	c, errs := race(ctx, defaultFallback, targets, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return attempt(ctx, network, to, n.dial)
	})
	if errs != nil {
		return nil, errs[0] // as package net does
	}
	return c, nil
}

func (n *Network) dial(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	c, err := n.newConn(nil)
	if err != nil {
		return nil, err
	}
	to = netip.AddrPortFrom(to.Addr().WithZone(""), to.Port()) // an adapter is of one interface
	err = c.connector.Connect(ctx, c.qp, to, c.params())
	if err == nil {
		err = c.greet()
	}
	if err == nil {
		c.begin()
		err = c.connector.CompleteConnect(ctx)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}
