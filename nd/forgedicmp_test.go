package nd_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// An established connection survives forged ICMP errors and loses no data, although the attacker knows its addresses and ports. The
// errors are counted.
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
			// A side that was descheduled for long has changed its port, so nobody knows its present port.
			for deadline := time.After(dropPatience); adapters[0].Stats().Paths.PortsChanged == 0 && adapters[0].Stats().Drops["icmp_unmatched"] == 0; {
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

// An attempt ends by an ICMP error about a REQ that left from an earlier source port, however late the error comes. A router that
// resolves the host's neighbour entry without success reports all REQs that waited meanwhile, and each of them may be older than
// the last change of the port.
func TestErrorAboutAnEarlierPort(t *testing.T) {
	t.Parallel()
	for _, dp := range []nd.Datapath{nd.DatapathGeneric, nd.DatapathUDP, nd.DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			star := netlabtest.Star(t, netlab.StarConfig{})
			near, far := star.Hosts[0], star.Hosts[1].Addr.Addr()
			at := netip.AddrPortFrom(far, nd.DefaultUDPPort)
			var silent *net.UDPConn // reads requests and does not answer
			testhelp.Must(t, star.Hosts[1].NS.Do(func() (err error) {
				silent, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
				return err
			}))
			defer silent.Close()
			var a *nd.Adapter
			testhelp.Must(t, near.NS.Do(func() (err error) {
				a, err = nd.OpenAdapter(nd.AdapterConfig{Address: near.Addr.Addr(), Datapath: dp})
				return err
			}))
			defer a.Close()
			dialed := make(chan error, 1)
			go func() {
				_, err := nd.Dial(t.Context(), netip.AddrPortFrom(far, 7000), nd.EndpointConfig{Adapter: a})
				dialed <- err
			}()
			ask := make([]byte, 2048)
			read := func() (request []byte, from netip.AddrPort) {
				for len(request) == 0 { // an empty datagram makes the kernel resolve the neighbour
					n, at, err := silent.ReadFromUDPAddrPort(ask)
					testhelp.Must(t, err)
					request, from = ask[:min(n, 512)], at
				}
				return request, from
			}
			request, first := read()
			forged := icmpError(1, first, at, request) // the code for "host unreachable"
			for from := first; from == first; {
				_, from = read()
			}
			sendErrors(t, star.Router, first.Addr(), forged, 1)
			if err := <-dialed; !errors.Is(err, nd.ErrHostUnreachable) {
				t.Errorf("%v, want %v", err, nd.ErrHostUnreachable)
			}
		})
	}
}
