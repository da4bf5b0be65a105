package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// The kernel silently leaves packets in the ring if a queue can only receive. virtio-net has such queues while an XDP program is
// attached and it has more queues than CPUs.
func TestMoreQueuesToReceiveThanToSend(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	addr, err := netlink.ParseAddr("10.98.0.1/24")
	must(t, err)
	must(t, pair.A.Do(func() (err error) {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "uneven", 2, 1
		veth := netlink.NewVeth(attrs)
		veth.PeerName = "peer"
		must(t, errors.Join(nl.LinkAdd(veth), nl.AddrAdd(veth, addr), nl.LinkSetUp(veth)))

		d, err := Open(plan.Config{Address: pair.AddrA.Addr()})
		must(t, err)
		must(t, d.Close())
		uneven := plan.Config{Address: netip.MustParseAddr("10.98.0.1"), Datapath: plan.Generic}
		for range 2 { // the second round finds nothing of the first
			if _, err = Open(uneven); err == nil || !strings.Contains(err.Error(), "receives on 2 queues and can send on 1 only") {
				t.Errorf("opened on queues that cannot send: %v", err)
			}
		}
		uneven.Datapath = plan.Auto
		d, err = Open(uneven)
		must(t, err)
		wantReason(t, d, plan.Ring, "can send on 1 only")
		must(t, d.Close())
		return nil
	}))
}

// TestVethCopies opens native mode on a driver without zero-copy: the sockets copy, the kernel reports that, and the adapter gives
// the reason.
func TestVethCopies(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{Queues: 2})
	for datapath, want := range map[plan.Datapath]string{plan.Native: "refused zero-copy", plan.Generic: "always copies"} {
		must(t, pair.A.Do(func() error {
			d, err := Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: datapath, Arena: 1 << 16})
			if err != nil {
				return err
			}
			i := d.Info()
			if i.Socket.ZeroCopy || !i.Socket.MultiBuffer || !strings.Contains(i.Copying, want) {
				t.Errorf("%s: %+v", datapath, i)
			}
			if _, id, ok := d.Alloc(4096); !ok || d.Release(id) != nil {
				t.Errorf("%s: no memory to send from", datapath)
			}
			return d.Close()
		}))
	}
}
