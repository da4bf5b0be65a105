package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// TestManyClients: five processes without privileges serve on one interface at once, one over AF_XDP and four with rings. As many
// processes write and read 3 MiB from the other end, where only rings are leased. Every byte is compared.
func TestManyClients(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socketA, _ := startBroker(t, pair.A, pair.NameA, nobody)
	socketB, _ := startBroker(t, pair.B, pair.NameB, nobody, "--mode", "ring")
	const clients = 5
	role := "serve"
	var servers, writers [clients]*process
	for i := range servers {
		servers[i] = startClient(t, pair.A, role, socketA, a, fmt.Sprintf("%s %d", b, 7000+i))
		servers[i].awaitReady(t)
		role = "serve" + byRing
	}
	for i := range writers {
		writers[i] = startClient(t, pair.B, "write"+byRing, socketB, b, fmt.Sprintf("%s %d", a, 7000+i))
	}
	for i := range writers {
		writers[i].wantSuccess(t, fmt.Sprint("writer ", i))
		servers[i].wantSuccess(t, fmt.Sprint("server ", i))
	}
	if attached(t, pair.B) {
		t.Error("a broker of rings attached an XDP program")
	}
	wantClean(t, pair)
}

// orphan writes and reads before and after its broker ends, on one connection.
func orphan(ctx context.Context, a *nd.Adapter, to netip.AddrPort, cfg nd.EndpointConfig) error {
	e, err := nd.Dial(ctx, to, cfg)
	if err != nil {
		return err
	}
	again := func() error {
		err := e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, payload)}, e.Peer.Address, e.Peer.Token, 0)
		if err == nil {
			_, err = e.Result(ctx)
		}
		return err
	}
	pattern(e.Memory.Bytes())
	if err := again(); err != nil {
		return err
	}
	fmt.Println("ready")
	for a.Datapath().Datapath != nd.DatapathUDP {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the adapter does not say that its broker has ended: %+v", a.Datapath())
		case <-time.After(time.Millisecond):
		}
	}
	return errors.Join(again(), e.QueuePair.Receive(2, nil), e.QueuePair.Send(3, nil, nd.OpSilentSuccess), firstOf(e.Result(ctx)), e.Disconnect(ctx))
}

func firstOf(_ nd.Result, err error) error { return err }

// TestBrokerOfRingsEnds: a connection continues when the broker of its ring ends.
func TestBrokerOfRingsEnds(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socketA, _ := startBroker(t, pair.A, pair.NameA, nobody)
	socketB, stop := startBroker(t, pair.B, pair.NameB, nobody, "--mode", "ring")
	server := startClient(t, pair.A, "serve", socketA, a, b)
	server.awaitReady(t)
	client := startClient(t, pair.B, "orphan"+byRing, socketB, b, a)
	client.awaitReady(t)
	stop()
	client.wantSuccess(t, "client")
	server.wantSuccess(t, "server")
}
