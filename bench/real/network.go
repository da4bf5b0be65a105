package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// port is the port on which a process listens.
const port = 7471

// network provides the connections of a program in one process.
type network struct {
	local, peer netip.Addr
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	open        func(ctx context.Context, network, address string) (net.Listener, error)
	wait        func(ctx context.Context) error // returns when data written to closed connections is delivered
}

// newNetwork returns bench.OverTCP or bench.OverND, each with the defaults of a program that sets no options.
func newNetwork(over string, local, peer netip.Addr) (*network, error) {
	n := &network{local: local, peer: peer}
	switch over {
	case bench.OverTCP:
		n.dial, n.open = (&net.Dialer{}).DialContext, (&net.ListenConfig{}).Listen
		n.wait = func(context.Context) error { return nil }
	case bench.OverND:
		n.dial, n.open = (&ndnet.Dialer{}).DialContext, (&ndnet.ListenConfig{}).Listen
		n.wait = ndnet.Wait
	default:
		return nil, fmt.Errorf("transport %q is unknown: %s or %s", over, bench.OverTCP, bench.OverND)
	}
	return n, nil
}

// listen listens on the address of this process.
func (n *network) listen() (net.Listener, error) {
	return n.open(context.Background(), "tcp", n.here())
}

// dialPeer connects to the other process, whatever address the program passes.
func (n *network) dialPeer(ctx context.Context) (net.Conn, error) {
	return n.dial(ctx, "tcp", n.there())
}

// here returns the address of this process, and there that of the peer process.
func (n *network) here() string  { return netip.AddrPortFrom(n.local, port).String() }
func (n *network) there() string { return netip.AddrPortFrom(n.peer, port).String() }

// datapath returns the datapath of the adapter that ndnet has opened in this process, or "".
func datapath() string {
	for _, socket := range ndinspect.Sockets() {
		c, err := ndinspect.Dial(socket)
		if err != nil {
			continue // of another process, or closed
		}
		reply, err := c.Ask(ndinspect.Request{Peer: netip.IPv6Unspecified()}) // leaves out all connections
		_ = c.Close()
		if err == nil && reply.PID == os.Getpid() {
			return reply.Datapath
		}
	}
	return ""
}
