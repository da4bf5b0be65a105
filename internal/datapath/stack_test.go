package datapath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// TestInterfaceWithLowerOnes opens an adapter on a bridge, whose packets arrive on its port. auto uses generic mode and gives the
// reason. Native mode is refused before anything is attached.
func TestInterfaceWithLowerOnes(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	addr, err := netlink.ParseAddr("10.97.0.1/24")
	must(t, err)
	must(t, pair.A.Do(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		must(t, nl.LinkAdd(bridge))
		port, err := nl.LinkByIndex(pair.IfindexA)
		must(t, err)
		must(t, nl.LinkSetMaster(port, bridge))
		must(t, nl.AddrAdd(bridge, addr))
		must(t, nl.LinkSetUp(bridge))

		at := netip.MustParseAddr("10.97.0.1")
		d, err := Open(plan.Config{Address: at})
		must(t, err)
		if i := d.Info(); i.Datapath != plan.Generic || !strings.Contains(i.Reason, "arrive on nd0") {
			t.Errorf("%s: %s", i.Datapath, i.Reason)
		}
		must(t, d.Close())
		nic, err := xdp.Inspect("br0")
		must(t, err)
		for _, err := range []error{plan.Unsuited(&nic, at, plan.Native), func() error { _, err := Open(plan.Config{Address: at, Datapath: plan.Native}); return err }()} {
			if err == nil || !strings.Contains(err.Error(), "packets arrive on nd0") {
				t.Errorf("native mode on a bridge: %v", err)
			}
		}
		must(t, plan.Unsuited(&nic, at, plan.Generic))
		return nil
	}))
}
