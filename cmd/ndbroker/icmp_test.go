package main

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// notice writes to a peer until the connection ends. It returns an error unless the peer's kernel reported that no process has the port.
func notice(ctx context.Context, a *nd.Adapter, to netip.AddrPort, cfg nd.EndpointConfig) error {
	e, err := nd.Dial(ctx, to, cfg)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for err == nil {
		if err = e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, payload)}, e.Peer.Address, e.Peer.Token, 0); err == nil {
			_, err = e.Result(ctx)
		}
	}
	if s := a.Stats(); ctx.Err() != nil || s.Connections.PortsUnheld == 0 {
		return fmt.Errorf("the connection ended with %w, and %d errors said that nobody has the port", err, s.Connections.PortsUnheld)
	}
	return nil
}

// TestClientHearsICMP: a client without privileges, with a lease of AF_XDP, learns at once that no process has the port of a peer: before
// the connection is established, and when the process of the peer is killed.
func TestClientHearsICMP(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: ipv6})
		a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
		if ipv6 {
			a, b = pair.Addr6A.Addr().String(), pair.Addr6B.Addr().String()
		}
		socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
		startClient(t, pair.A, "refused", socket, a, b).wantSuccess(t, "client of nobody")
		victim := startClient(t, pair.B, "serve"+overUDP, unbidden, b, a)
		victim.awaitReady(t)
		p := startClient(t, pair.A, "notice", socket, a, b)
		p.awaitReady(t)
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.cmd.Wait() // killed
		p.wantSuccess(t, "client")
	}
}
