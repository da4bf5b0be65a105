package nd

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A link-local address belongs to an interface, which a zone may name. Adapters on link-local addresses connect over every
// datapath.
func TestLinkLocal(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative, DatapathUDP, DatapathRing} {
		for name, zone := range map[string]func(ifindex int) string{
			"no zone": func(int) string { return "" },
			"name":    func(int) string { return netlab.DefaultName },
			"index":   strconv.Itoa,
		} {
			t.Run(dp.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				pair := netlabtest.Pair(t, netlab.PairConfig{Addr6A: netip.MustParsePrefix("fe80::a/64"), Addr6B: netip.MustParsePrefix("fe80::b/64")})
				must(t, pair.A.Do(func() error {
					_, err := OpenAdapter(AdapterConfig{Address: pair.Addr6A.Addr().WithZone("lo"), Datapath: dp})
					wantStatus(t, "open in another zone", err, ErrInvalidAddress)
					wantOneLine(t, err, "fe80::a%lo")
					return nil
				}))
				at := [2]netip.Addr{pair.Addr6A.Addr().WithZone(zone(pair.IfindexA)), pair.Addr6B.Addr().WithZone(zone(pair.IfindexB))}
				r := &rig{a: openIn(t, pair.A, AdapterConfig{Address: at[0], Datapath: dp}), b: openIn(t, pair.B, AdapterConfig{Address: at[1], Datapath: dp})}
				moveEverything(t, r)
				e := newEnd(t, r.a, 64)
				to := netip.AddrPortFrom(pair.Addr6B.Addr().WithZone(zone(pair.IfindexA)), 7000)
				must(t, e.ctr.Bind(netip.AddrPortFrom(at[0], 0)))
				wantStatus(t, "connect", e.ctr.Connect(t.Context(), e.qp, to, ConnectParams{}), ErrConnectionRefused) // the peer was found, and no listener has the port
				to = netip.AddrPortFrom(to.Addr().WithZone("lo"), 7000)
				wantStatus(t, "connect in another zone", e.ctr.Connect(t.Context(), e.qp, to, ConnectParams{}), ErrNetworkUnreachable)
				other := newEnd(t, r.a, 64)
				wantStatus(t, "bind in another zone", other.ctr.Bind(netip.AddrPortFrom(at[0].WithZone("lo"), 0)), ErrInvalidAddress)
			})
		}
	}
}

// TestDialToALinkLocalAddress: the zone of the peer's address selects the interface, and so the local address. Without a zone Dial
// fails.
func TestDialToALinkLocalAddress(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{Addr6A: netip.MustParsePrefix("fe80::a/64"), Addr6B: netip.MustParsePrefix("fe80::b/64")})
	var l *EndpointListener
	must(t, pair.B.Do(func() (err error) {
		l, err = Listen(netip.AddrPortFrom(pair.Addr6B.Addr(), 7000), EndpointConfig{})
		return err
	}))
	defer l.Close()
	for _, zone := range []string{netlab.DefaultName, strconv.Itoa(pair.IfindexA)} {
		accepted := make(chan error, 1)
		go func() {
			e, err := l.Accept(t.Context())
			if err == nil {
				err = e.Close()
			}
			accepted <- err
		}()
		must(t, pair.A.Do(func() error {
			e, err := Dial(t.Context(), netip.AddrPortFrom(pair.Addr6B.Addr().WithZone(zone), 7000), EndpointConfig{})
			if err != nil {
				return err
			}
			return e.Close()
		}))
		<-accepted // whichever side closes first, the connection was made
	}
	must(t, pair.A.Do(func() error {
		_, err := Dial(t.Context(), netip.AddrPortFrom(pair.Addr6B.Addr(), 7000), EndpointConfig{})
		wantStatus(t, "dial without a zone", err, ErrInvalidAddress)
		wantOneLine(t, err, "fe80::b%eth0")
		_, err = Dial(t.Context(), netip.AddrPortFrom(pair.Addr6B.Addr().WithZone("nowhere"), 7000), EndpointConfig{})
		wantStatus(t, "dial in a zone that is none", err, ErrNetworkUnreachable)
		return nil
	}))
}
