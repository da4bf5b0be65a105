package ndnet

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Adapters says which adapters Dialer and ListenConfig open. All that ask for the same one in a process share it; it is closed two seconds after the last
// connection and listener on it. The zero value is useful. A program that has opened an adapter itself uses New.
type Adapters struct {
	UDPPort  uint16 // as in nd.AdapterConfig
	Datapath nd.Datapath
	Config   Config
}

func (a *Adapters) network(local netip.Addr) (*Network, error) {
	return adapters.network(adapterKey{local, a.UDPPort, a.Datapath}, a.Config)
}

// Dialer connects over whatever adapter has the way to the peer. The zero value is useful. All methods may be called from any goroutine.
type Dialer struct {
	Adapters

	// Timeout bounds all of an attempt; 0 is no bound but the context's.
	Timeout time.Duration
	// Resolver looks up names; nil is net.DefaultResolver.
	Resolver *net.Resolver
	// FallbackDelay is how long the addresses of a name wait for those before them; 0 is 300 ms.
	FallbackDelay time.Duration
	// KeepAlive is after how much silence a connection asks its peer for a sign of life, unless KeepAliveConfig is enabled; 0 is 15 s, and a
	// negative value asks for none, as with net.Dialer.
	KeepAlive time.Duration
	// KeepAliveConfig, when it is enabled, is that of the connections; see Conn.SetKeepAliveConfig.
	KeepAliveConfig net.KeepAliveConfig

	// TCP, when it is set, connects over TCP where ND has failed, or has not connected within TCPAfter: then whichever is first
	// wins. The ND port is the TCP port. An error then says what both met with.
	TCP *net.Dialer
	// TCPAfter is how long TCP waits for ND; 0 is 300 ms.
	TCPAfter time.Duration
}

// Dial connects to an address with a zero Dialer.
func Dial(network, address string) (net.Conn, error) { return new(Dialer).Dial(network, address) }

// Dial connects to "host:port". The network's name is not looked at, because callers such as net/http say "tcp", but that its end, 4 or 6, asks for that
// family of addresses.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context, which has no effect on the connection once it is made. It is what http.Transport and gRPC take.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: errNil}
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	if d.TCP == nil {
		return d.dialND(ctx, network, address)
	}
	ways := []func(context.Context) (net.Conn, error){
		func(ctx context.Context) (net.Conn, error) { return d.dialND(ctx, network, address) },
		func(ctx context.Context) (net.Conn, error) { return d.TCP.DialContext(ctx, tcpName(network), address) },
	}
	c, errs := race(ctx, orDefault(d.TCPAfter), ways, func(ctx context.Context, way func(context.Context) (net.Conn, error)) (net.Conn, error) {
		return way(ctx)
	})
	if errs != nil {
		return nil, &net.OpError{Op: "dial", Net: tcpName(network), Err: &fault{errs[1], errs[0]}}
	}
	return c, nil
}

func orDefault(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultFallback
	}
	return d
}

// tcpName is the name of TCP for the family that a network's name asks for.
func tcpName(network string) string {
	if f := family(network); f != 0 {
		return "tcp" + string(f)
	}
	return "tcp"
}

func (d *Dialer) dialND(ctx context.Context, network, address string) (net.Conn, error) {
	targets, err := resolve(ctx, d.Resolver, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: meaning(err)}
	}
	c, errs := race(ctx, orDefault(d.FallbackDelay), targets, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return attempt(ctx, network, to, d.dialOne)
	})
	if errs != nil {
		return nil, errs[0] // as package net does
	}
	return c, nil
}

// dialOne connects to one address.
func (d *Dialer) dialOne(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	local, err := sourceFor(to)
	if err != nil {
		return nil, err
	}
	n, err := d.network(local)
	if err != nil {
		return nil, err
	}
	defer n.drop()
	c, err := n.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return c, c.SetKeepAliveConfig(keepAliveOf(d.KeepAlive, d.KeepAliveConfig))
}
