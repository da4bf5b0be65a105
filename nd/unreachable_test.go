package nd

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// routed is a host with an adapter behind a router. The router handles addresses of another network in a configurable way.
type routed struct {
	star *netlab.Star
	a    *Adapter
	far  netip.Prefix // the network of the other host
}

func newRouted(t *testing.T, dp Datapath, ipv6 bool) *routed {
	t.Helper()
	star := netlabtest.Star(t, netlab.StarConfig{IPv6: ipv6})
	for _, ns := range []*netlab.Namespace{star.Router, star.Hosts[1].NS} {
		must(t, ns.Do(talkative))
	}
	near, far := star.Hosts[0].Addr, star.Hosts[1].Addr
	if ipv6 {
		near, far = star.Hosts[0].Addr6, star.Hosts[1].Addr6
	}
	return &routed{star: star, a: openIn(t, star.Hosts[0].NS, AdapterConfig{Address: near.Addr(), Datapath: dp}), far: far}
}

// talkative removes the kernel's limit on ICMP errors, because these tests connect to many addresses at once.
func talkative() error {
	err := os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0)
	if _, none := os.Stat("/proc/sys/net/ipv6/icmp/ratelimit"); none == nil {
		err = errors.Join(err, os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("0"), 0))
	}
	return err
}

// treat makes the router handle an address of the far network in a special way.
func (r *routed) treat(t *testing.T, to netip.Addr, way int) {
	t.Helper()
	must(t, r.star.Router.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		return h.RouteAdd(&netlink.Route{Dst: netlink.NewIPNet(to.AsSlice()), Type: way})
	}))
}

// beyond returns the far network's address number n.
func (r *routed) beyond(n byte) netip.Addr {
	b := r.far.Addr().AsSlice()
	b[len(b)-1] = n
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// causes maps statuses to the errors of a UDP socket.
var causes = map[Status]error{ErrHostUnreachable: unix.EHOSTUNREACH, ErrNetworkUnreachable: unix.ENETUNREACH, ErrConnectionRefused: unix.ECONNREFUSED}

// TestRouterSaysTooSmall: if a link behind a router has an MTU below the minimum, Connect fails at once with the MTU that is
// needed. Once the MTU is raised, the connector connects.
func TestRouterSaysTooSmall(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			r := newRouted(t, dp, false)
			must(t, r.star.SetMTU(1, netlab.DefaultMTU, 1200))
			e := newEnd(t, r.a, 64)
			to := netip.AddrPortFrom(r.far.Addr(), 7000)
			err := e.ctr.Connect(t.Context(), e.qp, to, helloParams)
			wantStatus(t, "connect", err, ErrNetworkUnreachable)
			wantOneLine(t, err, to.Addr().String(), "1228")
			if !errors.Is(err, unix.EMSGSIZE) {
				t.Errorf("the cause is not %v", unix.EMSGSIZE)
			}
			must(t, r.star.SetMTU(1, netlab.DefaultMTU, 1228))
			wantStatus(t, "connect", e.ctr.Connect(t.Context(), e.qp, to, helloParams), ErrConnectionRefused) // no adapter is open there
		})
	}
}

// TestNATIsNamed: the error of an unanswered Connect names NAT, which looks like silence to the active side, and the MTU that paths
// need.
func TestNATIsNamed(t *testing.T) {
	t.Parallel()
	a := &Adapter{udpPort: DefaultUDPPort}
	for to, mtu := range map[string]string{"192.0.2.1": "1228", "2001:db8::1": "1248"} {
		err := a.silence(netip.MustParseAddr(to), false)
		for _, part := range []string{to, "NAT", "14791", mtu} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
		if err := a.silence(netip.MustParseAddr(to), true); strings.Contains(err.Error(), "NAT") {
			t.Errorf("a peer that answered is not behind NAT: %v", err)
		}
	}
}

// If a router or the peer's host reports that a REQ cannot be delivered, the attempt ends with the reported reason, and the
// connector can be used again.
func TestRouterSaysUnreachable(t *testing.T) {
	t.Parallel()
	for name, family := range map[string]struct {
		ipv6  bool
		wants map[int]Status // by the router's handling
	}{
		"IPv4": {false, map[int]Status{unix.RTN_UNREACHABLE: ErrHostUnreachable, unix.RTN_PROHIBIT: ErrHostUnreachable, unix.RTN_THROW: ErrNetworkUnreachable}},
		// For an IPv6 route of type unreachable the kernel reports "no route" (RFC 4443 §3.1, code 0).
		"IPv6": {true, map[int]Status{unix.RTN_UNREACHABLE: ErrNetworkUnreachable, unix.RTN_PROHIBIT: ErrHostUnreachable, unix.RTN_THROW: ErrNetworkUnreachable}},
	} {
		for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
			t.Run(name+" "+dp.String(), func(t *testing.T) {
				t.Parallel()
				r := newRouted(t, dp, family.ipv6)
				said := func(t *testing.T, to netip.Addr, want Status) {
					t.Parallel()
					e := newEnd(t, r.a, 64)
					err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(to, 7000), helloParams)
					wantStatus(t, "connect", err, want)
					wantOneLine(t, err, to.String(), "ICMP")
					if cause := causes[want]; !errors.Is(err, cause) {
						t.Errorf("the cause is not %v", cause)
					}
					if s := e.ctr.state(); s != provider.CtrBound || e.qp.qp.State() != provider.QPIdle {
						t.Errorf("connector %v, queue pair %v after the attempt", s, e.qp.qp.State())
					}
					_, err = e.ctr.PrivateData()
					wantStatus(t, "private data", err, ErrConnectionInvalid)
				}
				for way, want := range family.wants {
					to := r.beyond(100 + byte(way))
					r.treat(t, to, way)
					t.Run(map[int]string{unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw"}[way],
						func(t *testing.T) { said(t, to, want) })
				}
				t.Run("nobody", func(t *testing.T) { said(t, r.beyond(77), ErrHostUnreachable) }) // after the router's own neighbour resolution has failed
				t.Run("no adapter", func(t *testing.T) { said(t, r.far.Addr(), ErrConnectionRefused) })
				t.Cleanup(func() {
					if d := r.a.Stats().Drops; d["icmp_unmatched"]+d["icmp_malformed"]+d["icmp_excess"] > 0 {
						t.Errorf("some were not believed: %v", d)
					}
				})
			})
		}
	}
}

// Plain sockets receive the error without any privilege, so this test needs none.
func TestNobodyHasThePort(t *testing.T) {
	t.Parallel()
	a, err := OpenAdapter(AdapterConfig{Address: loopback[0], UDPPort: netlabtest.FreePort(t), Datapath: DatapathUDP})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	e := newEnd(t, a, 64)
	for range 2 { // the second time with the same connector
		err = e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(loopback[1], 7000), helloParams)
		wantStatus(t, "connect", err, ErrConnectionRefused)
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%v does not say that it was the kernel", err)
		}
	}
}
