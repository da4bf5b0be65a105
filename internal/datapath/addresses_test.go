package datapath

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

func TestAddressesFollowTheNamespace(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	var a *Addresses
	if err := pair.A.Do(func() (err error) { a, err = OpenAddresses(); return err }); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	list, err := a.List()
	if err != nil || !slices.Contains(list, pair.AddrA.Addr()) || slices.Contains(list, pair.AddrB.Addr()) {
		t.Fatalf("addresses %v, %v, want %v and not %v", list, err, pair.AddrA.Addr(), pair.AddrB.Addr())
	}
	if src, err := a.Source(pair.AddrB.Addr()); err != nil || src != pair.AddrA.Addr() {
		t.Errorf("source towards %v is %v, %v", pair.AddrB.Addr(), src, err)
	}
	if _, err := a.Source(netip.MustParseAddr("192.0.2.1")); !errors.Is(err, ErrNoRoute) {
		t.Errorf("source towards nowhere: %v", err)
	}
	changed := a.Changed()
	extra := netip.MustParsePrefix("10.97.0.1/24")
	if err := pair.A.Do(func() error {
		link, err := netlink.LinkByName(netlab.DefaultName)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(extra.String())
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, addr)
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("nobody was told of the new address")
	}
	if list, err := a.List(); err != nil || !slices.Contains(list, extra.Addr()) {
		t.Errorf("addresses %v, %v, want %v among them", list, err, extra.Addr())
	}
}
