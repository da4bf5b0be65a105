package ndnet

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Adapters describes the adapters that Dialer and ListenConfig open. All users of the same adapter in a process share it. It is
// closed two seconds after its last connection and listener. The zero value is valid. A program that has opened an adapter itself
// uses New.
type Adapters struct {
	UDPPort  uint16 // as in nd.AdapterConfig
	Datapath nd.Datapath
	Config   Config
}

func (a *Adapters) network(local netip.Addr) (*Network, error) {
	return adapters.network(adapterKey{local, a.UDPPort, a.Datapath}, a.Config)
}

// Dialer connects over the adapter that has the route to the peer. The zero value is valid. All methods may be called from any
// goroutine.
type Dialer struct {
	Adapters

	// Timeout bounds the whole attempt; 0 leaves the bound to the context.
	Timeout time.Duration
	// Resolver looks up names; nil is net.DefaultResolver.
	Resolver *net.Resolver
	// FallbackDelay is how long an address of a name waits for the attempt before it; 0 is 300 ms.
	FallbackDelay time.Duration
	// KeepAlive is the idle time after which a connection sends a keep-alive, unless KeepAliveConfig is enabled. 0 is 15 s, and a negative
	// value sends none, as with net.Dialer.
	KeepAlive time.Duration
	// KeepAliveConfig, if enabled, is used for the connections; see Conn.SetKeepAliveConfig.
	KeepAliveConfig net.KeepAliveConfig

	// TLS, if set, encrypts connections: over ND they are *SecureConn. The certificate of the peer must have the dialed host, unless ServerName
	// is set; nd.Connector.UseTLS says more. Over TCP, connections are *tls.Conn with the same configuration. A dialer with TLS never makes a
	// connection that is not encrypted. The dialer keeps the configuration, which must not change.
	TLS *tls.Config

	// TCP, if set, also connects over TCP if ND has failed or has not connected within TCPAfter. The first connection wins. The ND port is
	// used as the TCP port. If both fail, the error has both reasons.
	TCP *net.Dialer
	// TCPAfter is how long TCP waits for ND; 0 is 300 ms.
	TCPAfter time.Duration
}

// Dial connects to an address with a zero Dialer.
func Dial(network, address string) (net.Conn, error) { return new(Dialer).Dial(network, address) }

// Dial connects to "host:port". The network is "tcp" or "nd", which mean the same here because callers such as net/http pass "tcp". A final 4
// or 6 selects the address family. Other networks are a net.UnknownNetworkError.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context, which has no effect on an established connection. http.Transport and gRPC accept it as their dialer.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "dial", Net: "nd", Err: errNil}
	}
	if err := checkName(network); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
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
		func(ctx context.Context) (net.Conn, error) { return d.dialTCP(ctx, network, address) },
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

// tcpName returns the name of TCP for the address family that a network's name selects.
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
	cfg := named(d.TLS, address)
	c, errs := race(ctx, orDefault(d.FallbackDelay), targets, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return attempt(ctx, network, to, func(ctx context.Context, to netip.AddrPort) (*Conn, error) { return d.dialOne(ctx, to, cfg) })
	})
	if errs != nil {
		return nil, errs[0] // as in package net
	}
	return c, nil
}

// dialOne connects to one address.
func (d *Dialer) dialOne(ctx context.Context, to netip.AddrPort, cfg *tls.Config) (*Conn, error) {
	local, err := sources.find(to, sourceFor)
	if err != nil {
		return nil, err
	}
	n, err := d.network(local)
	if err != nil {
		return nil, err
	}
	defer n.drop()
	c, err := n.dial(ctx, to, cfg)
	if err != nil {
		return nil, err
	}
	return c, c.SetKeepAliveConfig(keepAliveOf(d.KeepAlive, d.KeepAliveConfig))
}
