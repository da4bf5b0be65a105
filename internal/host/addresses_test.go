package host

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
	if _, err := a.Source(netip.MustParseAddr("192.0.2.1")); !errors.Is(err, ErrNoRoute) || !strings.Contains(err.Error(), "ip route get 192.0.2.1)") {
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
		t.Fatal("the new address was not reported")
	}
	if list, err := a.List(); err != nil || !slices.Contains(list, extra.Addr()) {
		t.Errorf("addresses %v, %v, want %v among them", list, err, extra.Addr())
	}
}

// TestAddressesAfterLostEvents: the kernel drops events that are not read in time. The loss is reported like a change, and later
// events are reported as well.
func TestAddressesAfterLostEvents(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		a, err := OpenAddresses()
		must(t, err)
		defer a.Close()
		must(t, a.events.SetReceiveBufferSize(1, true)) // the minimum of the kernel
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		setMTU := func(mtu int) {
			must(t, nl.LinkSetMTU(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}, mtu))
		}
		a.mu.Lock() // blocks the reader of events
		changed := (<-chan struct{})(a.changed)
		for mtu := range 100 {
			setMTU(1400 + mtu)
		}
		a.mu.Unlock()
		await := func(what string) {
			t.Helper()
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatal(what)
			}
		}
		await("lost events are no change")
		// The events in the socket are reported one after the other, and so is the last address.
		extra, err := netlink.ParseAddr("10.97.0.1/24")
		must(t, err)
		must(t, nl.AddrAdd(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}, extra))
		for {
			changed = a.Changed()
			list, err := a.List()
			must(t, err)
			if slices.Contains(list, netip.MustParseAddr("10.97.0.1")) {
				break
			}
			await("the last address was not told")
		}
		changed = a.Changed()
		setMTU(1300)
		await("a later change was not told")
		return nil
	}))
}

// TestAddressesOfInterfacesThatGoDown: addresses of an interface that is down do not count, and that is a change.
func TestAddressesOfInterfacesThatGoDown(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		a, err := OpenAddresses()
		must(t, err)
		defer a.Close()
		changed := a.Changed()
		must(t, netlink.LinkSetDown(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}))
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("the change was not reported")
		}
		list, err := a.List()
		if err != nil || slices.Contains(list, pair.AddrA.Addr()) {
			t.Errorf("%v, %v", list, err)
		}
		return nil
	}))
}
