package ndnet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Bounds of Config.MaxBuffer.
const (
	minMaxBuffer     = 16 << 10
	defaultMaxBuffer = 1 << 20
)

// Config sizes connections. The zero value of a field is its default.
type Config struct {
	// MaxBuffer is the largest size of each of the two buffers of a connection, in bytes: the send buffer and the receive buffer.
	// It is rounded up to a power of two of 16 KiB to 64 MiB; the default is 1 MiB. Buffers begin with 512 bytes, grow if they
	// block the peer or a Write, and shrink after seconds without traffic.
	MaxBuffer int
	// EstablishTimeout is how long a client of a listener may take to complete the handshake; 0 is 5 s. Dial completes at once. Until the
	// time-out, an incomplete client occupies a place in the backlog.
	EstablishTimeout time.Duration
}

// stayTime is how long it takes to read half of the largest ring at 5 Gb/s. The peer reports its progress after half of the ring.
const stayTime = time.Millisecond

// defaultEstablish equals the silence that ends any handshake (PROTOCOL §7.2).
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

// bufferSize returns the power of two to which buffers may grow if n bytes were asked for.
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
	hold    func()        // counts a connection or listener as a user of a shared adapter
	drop    func()        // ends one such use
	stay    time.Duration // how long a Write with unsent bytes waits for the peer to read, before a goroutine does; stayTime
	later   time.Duration // how long bytes wait for the next Write before a timer checks them; laterTime
	bounds  closeBounds
	silence time.Duration // the transport's PeerTimeout; zero if the caller owns the adapter
	backlog int           // how many connections of a listener wait for Accept; somaxconn
	pool    pool
	buffers buffers

	mu        sync.Mutex
	deafUntil time.Time        // Close does not wait for an end alone until then, because one was not acknowledged
	tidying   bool             // tidy is scheduled
	grown     map[*Conn]uint64 // connections with memory to give back, and their value of moved at the last check
	client    *tls.Config      // of UseTLS
	server    admission        // of UseTLS
}

// New makes a network on an adapter. The caller still owns the adapter and closes it after Wait. It fails if cfg is invalid or
// adapter is nil.
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

// Wait waits until all closed connections of the network have delivered their data or given up, and closed listeners have ended. If ctx
// ends first, it returns the context's error. It does not wait for open connections and listeners.
func (n *Network) Wait(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("ndnet: wait: %w", errNil)
	}
	if err := n.ending.wait(ctx); err != nil {
		return fmt.Errorf("ndnet: wait: %w", err)
	}
	return nil
}

// Dial connects to an ND address such as "192.0.2.1:80": an IP address and an ND port. ND ports are unrelated to the host's TCP and UDP
// ports. The network is one that Dialer.Dial takes.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context, which has no effect on an established connection. http.Transport and gRPC accept it as their dialer.
// Names are resolved, and only addresses of the adapter's family are tried.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: errNil}
	}
	if err := checkName(network); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	name := "nd6"
	if n.local.Is4() {
		name = "nd4"
	}
	targets, err := resolve(ctx, nil, name, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: meaning(err)}
	}
	cfg, _ := n.configured()
	cfg = named(cfg, address)
	c, errs := race(ctx, defaultFallback, targets, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return attempt(ctx, network, to, func(ctx context.Context, to netip.AddrPort) (*Conn, error) { return n.dial(ctx, to, cfg) })
	})
	if errs != nil {
		return nil, errs[0] // as in package net
	}
	return c, nil
}

// dial connects to one address, encrypted if there is a configuration.
func (n *Network) dial(ctx context.Context, to netip.AddrPort, cfg *tls.Config) (*Conn, error) {
	c, err := n.newConn(nil)
	if err != nil {
		return nil, err
	}
	to = netip.AddrPortFrom(to.Addr().WithZone(""), to.Port()) // an adapter belongs to one interface
	if cfg != nil {
		err = c.connector.UseTLS(cfg)
	}
	if err == nil {
		err = c.connector.Connect(ctx, c.qp, to, c.params())
	}
	if err == nil {
		err = c.greet()
	}
	if err == nil {
		c.begin()
		err = c.connector.CompleteConnectEarly()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}
