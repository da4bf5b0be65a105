package datapath

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// cidr parses a network for netlink.
func cidr(s string) *net.IPNet {
	p := netip.MustParsePrefix(s)
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// TestRoutesThatRefuse: for every kind of route or rule that refuses packets, the error says that there is no route and names the
// kind. This holds beside a default route, and for the choice of the local address.
func TestRoutesThatRefuse(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	d, six := newResolver(t, pair), newResolverOf(t, pair, pair.Addr6A.Addr())
	type refusingRoute struct {
		kind int
		net  string
		say  string
	}
	kinds := []refusingRoute{
		{unix.RTN_BLACKHOLE, "192.0.2.0/28", "blackhole"},
		{unix.RTN_PROHIBIT, "192.0.2.16/28", "prohibit"},
		{unix.RTN_UNREACHABLE, "192.0.2.32/28", "unreachable"},
		{unix.RTN_THROW, "192.0.2.48/28", "throw"},
		{unix.RTN_BLACKHOLE, "2001:db8:1::/48", "blackhole"},
		{unix.RTN_PROHIBIT, "2001:db8:2::/48", "prohibit"},
		{unix.RTN_UNREACHABLE, "2001:db8:3::/48", "unreachable"},
	}
	var addresses *host.Addresses
	must(t, pair.A.Do(func() (err error) {
		for _, k := range kinds {
			if err := netlink.RouteAdd(&netlink.Route{Type: k.kind, Dst: cidr(k.net)}); err != nil {
				return err
			}
		}
		for _, to := range []netip.Addr{pair.AddrB.Addr(), pair.Addr6B.Addr()} {
			all := "0.0.0.0/0"
			if to.Is6() {
				all = "::/0"
			}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: pair.IfindexA, Dst: cidr(all), Gw: to.AsSlice()}); err != nil {
				return err
			}
		}
		addresses, err = host.OpenAddresses()
		return err
	}))
	t.Cleanup(addresses.Close)
	for _, k := range kinds {
		to := netip.MustParsePrefix(k.net).Addr().Next()
		from := d
		if to.Is6() {
			from = six
		}
		if err := from.Resolve(t.Context(), to); !errors.Is(err, host.ErrNoRoute) || !strings.Contains(err.Error(), k.say) {
			t.Errorf("resolve %s behind a route of the type %s: %v", to, k.say, err)
		}
		if _, err := addresses.Source(to); !errors.Is(err, host.ErrNoRoute) || !strings.Contains(err.Error(), k.say) {
			t.Errorf("the address to reach %s from, behind a route of the type %s: %v", to, k.say, err)
		}
	}
	must(t, pair.A.Do(func() error {
		rule := netlink.NewRule()
		rule.Priority, rule.Dst, rule.Type = 100, cidr("198.51.100.0/24"), unix.RTN_PROHIBIT
		return netlink.RuleAdd(rule)
	}))
	ruled := netip.MustParseAddr("198.51.100.1")
	if err := d.Resolve(t.Context(), ruled); !errors.Is(err, host.ErrNoRoute) || !strings.Contains(err.Error(), "prohibit") {
		t.Errorf("resolve %s behind a rule of the type prohibit: %v", ruled, err)
	}
}

// TestNextHopOfAnotherFamily: IPv4 packets use the link-layer address of an IPv6 next hop (RFC 5549).
func TestNextHopOfAnotherFamily(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	d := newResolver(t, pair)
	far := netip.MustParseAddr("192.0.2.1")
	must(t, pair.A.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: pair.IfindexA, Dst: cidr("192.0.2.0/24"), Via: &netlink.Via{AddrFamily: unix.AF_INET6, Addr: pair.Addr6B.Addr().AsSlice()},
		})
	}))
	must(t, d.Resolve(t.Context(), far))
	if mac, _ := d.state.Cached(far); string(mac[:]) != string(pair.MACB) {
		t.Errorf("resolved to %x, want the IPv6 next hop %x", mac, pair.MACB)
	}
	if by, err := d.resolver.HopTo(far); err != nil || by != pair.Addr6B.Addr() {
		t.Errorf("the hop is %v (%v), want %v", by, err, pair.Addr6B.Addr())
	}
}

// TestOwnAddressWithoutLoopback: a local address is unreachable while the loopback interface is down, and the error says so.
func TestOwnAddressWithoutLoopback(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, datapath := range []plan.Datapath{plan.UDP, plan.Generic} {
		t.Run(datapath.String(), func(t *testing.T) {
			var d Device
			must(t, pair.A.Do(func() (err error) {
				if err := setLoopback(false); err != nil {
					return err
				}
				d, err = Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: datapath})
				return err
			}))
			defer func() { must(t, d.Close()) }()
			err := d.Resolve(t.Context(), pair.AddrA.Addr())
			if !errors.Is(err, host.ErrNoRoute) || !strings.Contains(err.Error(), "ip link set lo up") {
				t.Errorf("with lo down: %v", err)
			}
			must(t, pair.A.Do(func() error { return setLoopback(true) }))
			must(t, d.Resolve(t.Context(), pair.AddrA.Addr()))
		})
	}
}

func setLoopback(up bool) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if up {
		return netlink.LinkSetUp(lo)
	}
	return netlink.LinkSetDown(lo)
}

// TestZonesByAlternativeNames: a zone may be any name of an interface, also a name that the interface gets while the adapter is
// open.
func TestZonesByAlternativeNames(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	const long = "enp0s31f6-uplink-of-the-rack"
	linkLocal := netip.MustParseAddr("fe80::77")
	must(t, pair.A.Do(func() error {
		link, err := netlink.LinkByIndex(pair.IfindexA)
		if err != nil {
			return err
		}
		if err := netlink.LinkAddAltName(link, long); err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: cidr(linkLocal.String() + "/64"), Flags: unix.IFA_F_NODAD})
	}))
	for _, zone := range []string{pair.NameA, long, "wrong"} {
		var d Device
		err := pair.A.Do(func() (err error) {
			d, err = Open(plan.Config{Address: linkLocal.WithZone(zone), Datapath: plan.UDP})
			return err
		})
		if wrong := zone == "wrong"; (err != nil) != wrong {
			t.Fatalf("open with the zone %s: %v", zone, err)
		} else if wrong {
			continue
		}
		info := d.Info()
		if !info.InZone(pair.NameA) || !info.InZone("") || info.InZone("wrong") || info.InZone(pair.NameA+"/"+long) {
			t.Errorf("zones of the adapter that was opened with the zone %s are wrong", zone)
		}
		must(t, d.Close())
	}
	must(t, pair.A.Do(func() error {
		name, err := host.InterfaceNamed(long)
		if err != nil || name != pair.NameA {
			t.Errorf("the interface %s is %s (%v), want %s", long, name, err, pair.NameA)
		}
		if _, err := host.InterfaceNamed("wrong"); err == nil {
			t.Error("an interface with a wrong name was found")
		}
		return nil
	}))
}
