package nd_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// An established connection outlives forged errors about it, whose forger knows its addresses and ports, and loses nothing by them. They
// are counted.
func TestForgedErrorsAboutAConnection(t *testing.T) {
	t.Parallel()
	for _, dp := range []nd.Datapath{nd.DatapathGeneric, nd.DatapathUDP, nd.DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), dropPatience)
			defer cancel()
			star := netlabtest.Star(t, netlab.StarConfig{})
			var adapters [2]*nd.Adapter
			for i, h := range star.Hosts {
				if err := h.NS.Do(func() (err error) {
					adapters[i], err = nd.OpenAdapter(nd.AdapterConfig{Address: h.Addr.Addr(), Datapath: dp})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				defer adapters[i].Close()
			}
			at := netip.AddrPortFrom(star.Hosts[1].Addr.Addr(), 7000)
			l, err := nd.Listen(at, nd.EndpointConfig{Adapter: adapters[1], Rights: nd.MRAllowRemoteWrite})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := make(chan error, 1)
			go func() {
				_, err := l.Accept(ctx)
				accepted <- err
			}()
			e, err := nd.Dial(ctx, at, nd.EndpointConfig{Adapter: adapters[0]})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			connections := adapters[0].Connections()
			if len(connections) != 1 {
				t.Fatalf("%d connections", len(connections))
			}
			from := netip.AddrPortFrom(star.Hosts[0].Addr.Addr(), wire.SourcePort(connections[0].ID))
			to := netip.AddrPortFrom(at.Addr(), nd.DefaultUDPPort)
			forged := icmpError(3, from, to, nil)
			for i := range uint64(100) {
				if i%10 == 0 {
					sendErrors(t, star.Router, from.Addr(), forged, 10)
				}
				if err := e.QueuePair.Write(i, []nd.SGE{e.Memory.SGE(0, 64)}, e.Peer.Address, e.Peer.Token, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Result(ctx); err != nil {
					t.Fatal(err)
				}
			}
			// A side that was off its core for long has left its port: nobody knows the new one.
			for deadline := time.After(dropPatience); adapters[0].Stats().PortsChanged == 0 && adapters[0].Stats().Drops["icmp_unmatched"] == 0; {
				select {
				case <-deadline:
					t.Fatalf("not counted: %v", adapters[0].Stats().Drops)
				case <-time.After(time.Millisecond):
				}
			}
			if lost := adapters[0].Stats().Drops["tx_lost"]; lost > 0 {
				t.Errorf("%d packets were lost by it", lost)
			}
		})
	}
}
