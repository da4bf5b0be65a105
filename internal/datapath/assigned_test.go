package datapath

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// An own address with two other ends is there until both are gone, of whatever length their networks are.
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
		r.device, err = Open(Config{Address: local, Rung: RungUDP})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	r.watch()
	state := r.device.(*plainUDP).state
	r.inA(func() error {
		must(t, netlink.AddrDel(link, one))
		return netlink.LinkSetMTU(link, 1400)
	})
	r.await("the MTU is followed", func() bool {
		state.mu.Lock()
		defer state.mu.Unlock()
		return state.link.MTU == 1400
	})
	select {
	case cause := <-r.gone:
		t.Fatalf("ended with the address there: %v", cause)
	default:
	}
	r.inA(func() error { return netlink.AddrDel(link, another) })
	select {
	case <-r.gone:
	case <-time.After(patience):
		t.Error("it goes on without its address")
	}
}

// An address that gets another length, as when a network is made larger, is one of this machine all the while.
func TestOwnAddressGetsAnotherLength(t *testing.T) {
	s := known()
	s.locals = map[located]struct{}{}
	wide, narrow := netip.MustParsePrefix("10.99.0.1/16"), netip.MustParsePrefix("10.99.0.1/24")
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: narrow})
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: wide})
	s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: narrow})
	if s.elsewhere(ourAddr) {
		t.Error("an own address is another machine's")
	}
	s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: wide})
	if !s.elsewhere(ourAddr) {
		t.Error("an address that is gone is still this machine's")
	}
}
