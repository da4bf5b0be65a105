package datapath

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Two interfaces may have the same link-local address, like a VLAN and the interface below it. Adapters on that address belong to
// two networks: each receives on the well-known port, where peers of its link connect.
func TestLinkLocalAddressOfTwoInterfacesHasTwoWellKnownPorts(t *testing.T) {
	same, theirs := netip.MustParsePrefix("fe80::a/64"), netip.MustParsePrefix("fe80::b/64")
	pair := netlabtest.Pair(t, netlab.PairConfig{Addr6A: same, Addr6B: theirs})
	const second = "nd1"
	names := []string{pair.NameA, second}
	must(t, pair.A.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = second
		leg := netlink.NewVeth(attrs)
		leg.PeerName, leg.PeerNamespace = second, netlink.NsFd(pair.B.FD())
		if err := netlink.LinkAdd(leg); err != nil {
			return err
		}
		return setUpWith(t, second, same)
	}))
	must(t, pair.B.Do(func() error { return setUpWith(t, second, theirs) }))
	for _, datapath := range []plan.Datapath{plan.UDP, plan.Generic} {
		var devices []Device
		for _, name := range names {
			var d Device
			must(t, pair.A.Do(func() (err error) {
				d, err = Open(plan.Config{Address: same.Addr().WithZone(name), Datapath: datapath})
				return err
			}))
			t.Cleanup(func() { must(t, d.Close()) })
			if i := d.Info(); i.Interface != name || d.ReceivePort() != wire.DefaultPort {
				t.Fatalf("%s: an adapter of %s receives at port %d of %s", datapath, name, d.ReceivePort(), i.Interface)
			}
			devices = append(devices, d)
		}
		for i, name := range names {
			c := listenIn(t, pair.B, netip.AddrPortFrom(theirs.Addr().WithZone(name), 0))
			s := &sending{t, c, netip.AddrPortFrom(same.Addr().WithZone(name), wire.DefaultPort)}
			s.send(64 + i)
			receive(t, devices[i].Ports()[0], func(p *provider.RxPacket) {
				if p.Len != 64+i {
					t.Errorf("%s: the adapter of %s got a packet of %d bytes", datapath, name, p.Len)
				}
			})
		}
		for _, d := range devices {
			must(t, d.Close())
		}
	}
}

// setUpWith gives an interface of the calling thread's namespace an address, and sets it up.
func setUpWith(t *testing.T, name string, at netip.Prefix) error {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(at.String())
	if err != nil {
		return err
	}
	a.Flags = unix.IFA_F_NODAD
	return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l))
}
