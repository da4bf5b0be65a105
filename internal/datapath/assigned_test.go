package datapath

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A local point-to-point address with two peer addresses exists until both are removed, whatever their prefix lengths are.
func TestPointToPointAddressRemoved(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{}), gone: make(chan error, 2)}
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: r.pair.IfindexA}}
	local := netip.MustParseAddr("10.98.0.1")
	to := func(peer string) *netlink.Addr {
		_, network, err := net.ParseCIDR(peer)
		must(t, err)
		return &netlink.Addr{IPNet: &net.IPNet{IP: local.AsSlice(), Mask: net.CIDRMask(32, 32)}, Peer: network}
	}
	one, another := to("10.98.1.0/24"), to("10.98.2.0/24")
	r.inA(func() (err error) {
		must(t, netlink.AddrAdd(link, one))
		must(t, netlink.AddrAdd(link, another))
		r.device, err = Open(plan.Config{Address: local, Datapath: plan.UDP})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	r.watch()
	r.inA(func() error {
		must(t, netlink.AddrDel(link, one))
		return netlink.LinkSetMTU(link, 1400)
	})
	r.await("the MTU is followed", func() bool {
		return r.device.Ports()[0].MaxPacket() == 1400-28
	})
	select {
	case cause := <-r.gone:
		t.Fatalf("ended although the address exists: %v", cause)
	default:
	}
	r.inA(func() error { return netlink.AddrDel(link, another) })
	select {
	case <-r.gone:
	case <-time.After(patience):
		t.Error("the adapter did not end without its address")
	}
}
