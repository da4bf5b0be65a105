package main

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd/ndk"
)

// TestNDKThroughABroker: an adapter of nd/ndk that a broker opened for a process without privileges reaches its peer, which refuses the
// connection.
func TestNDKThroughABroker(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socketA, _ := startBroker(t, pair.A, pair.NameA, nobody)
	socketB, _ := startBroker(t, pair.B, pair.NameB, nobody)
	peer := startClient(t, pair.A, "hold", socketA, a, a)
	peer.awaitReady(t)
	startClient(t, pair.B, "ndk", socketB, b, a).wantSuccess(t, "ndk")
	if err := peer.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = peer.cmd.Wait() // killed
	wantClean(t, pair)
}

// throughNDK connects to a port without a listener. The answer arrives over AF_XDP, because only plain sockets reach the own address, and
// the test checks this.
func throughNDK(ctx context.Context, socket string, local, remote netip.Addr) error {
	a, err := ndk.OpenAdapter(ndk.AdapterConfig{Address: local, Broker: socket})
	if err != nil {
		return err
	}
	if i, s := a.QueryInfo(); s != ndk.StatusSuccess || i.Flags&ndk.AdapterLoopbackConnections != 0 {
		return fmt.Errorf("%+v, %w", i, s)
	}
	cq, s := a.CreateCQ(1, nil, nil, nil, nil)
	pd, s2 := a.CreatePD(nil, nil)
	ctr, s3 := a.CreateConnector(nil, nil)
	if s.Failed() || s2.Failed() || s3.Failed() {
		return fmt.Errorf("create: %w, %w, %w", s, s2, s3)
	}
	qp, s := pd.CreateQP(ndk.QPConfig{ReceiveCQ: cq, InitiatorCQ: cq, InitiatorDepth: 1}, nil, nil)
	if s.Failed() {
		return s
	}
	told := make(chan ndk.Status, 1)
	if s := ctr.Connect(qp, netip.AddrPortFrom(local, 0), netip.AddrPortFrom(remote, 7000), ndk.ConnectParams{},
		func(_ any, s ndk.Status) { told <- s }, nil); s != ndk.StatusPending {
		return s
	}
	select {
	case s = <-told:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, closes := range []func(ndk.CloseCompletion, any) ndk.Status{ctr.Close, qp.Close, pd.Close, cq.Close} {
		closes(nil, nil)
	}
	if err := a.Close(); err != nil || s != ndk.StatusConnectionRefused {
		return fmt.Errorf("%w, want %w; close: %w", s, ndk.StatusConnectionRefused, err)
	}
	return nil
}
