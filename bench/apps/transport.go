package apps

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// Bounds of the wait for connections to close, which depend on their number.
const (
	closeTimeout       = 5 * time.Second
	closePerConnection = 20 * time.Millisecond
)

// transport provides the connections of programs.
type transport struct {
	local, peer netip.AddrPort
	datapath    string // of ND
	listen      func(ctx context.Context, network, address string) (net.Listener, error)
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	close       func() error
}

// open opens the transport of a job.
func open(j bench.Job) (*transport, error) {
	t := &transport{local: j.Local.Addr, peer: j.Peer.Addr}
	own, err := j.TLS.TLS()
	if err != nil {
		return nil, err
	}
	if j.Apps.Over == bench.OverTCP {
		t.listen, t.dial, t.close = new(net.ListenConfig).Listen, new(net.Dialer).DialContext, func() error { return nil }
		if j.TLS != nil {
			t.encrypt(own)
		}
		return t, nil
	}
	mode := nd.DatapathAuto
	if j.Datapath != "" {
		if mode, err = nd.ParseDatapath(j.Datapath); err != nil {
			return nil, err
		}
	}
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: j.Local.Addr.Addr(), UDPPort: j.UDPPort, Datapath: mode})
	if err != nil {
		return nil, err
	}
	network, err := ndnet.New(adapter, ndnet.Config{})
	if err != nil {
		return nil, errors.Join(err, adapter.Close())
	}
	t.datapath = adapter.Datapath().Datapath.String()
	t.dial = network.DialContext
	t.listen = func(_ context.Context, name, address string) (net.Listener, error) {
		return network.Listen(name, address)
	}
	if j.Apps.Over == bench.OverNDTLS {
		t.encrypt(own)
	} else {
		network.UseTLS(own.Dial, own.Serve)
	}
	patience := closeTimeout
	for _, s := range j.Apps.Specs {
		patience += time.Duration(s.Connections) * closePerConnection
	}
	t.close = func() error {
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
			fmt.Errorf("connections are still open %v after the programs ended", patience))
		defer cancel()
		return errors.Join(network.Wait(ctx), adapter.Close())
	}
	return t, nil
}

// encrypt puts crypto/tls over the connections.
func (t *transport) encrypt(own bench.TLS) {
	listen, dial := t.listen, t.dial
	t.listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		plain, err := listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tls.NewListener(plain, own.Serve), nil
	}
	t.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, own.Dial)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		return conn, nil
	}
}

// nextPort selects the next port, because closing connections over ND still use the port of their listener.
func (t *transport) nextPort() {
	if t.datapath != "" {
		t.local = netip.AddrPortFrom(t.local.Addr(), t.local.Port()+1)
		t.peer = netip.AddrPortFrom(t.peer.Addr(), t.peer.Port()+1)
	}
}
