package datapath

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// netlinkSockets counts the netlink sockets of this process in the calling thread's network namespace.
func netlinkSockets(t *testing.T) (n int) {
	t.Helper()
	list, err := os.Open("/proc/thread-self/net/netlink")
	must(t, err)
	defer list.Close()
	inodes := map[string]bool{}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		inodes["socket:["+fields[len(fields)-1]+"]"] = true
	}
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range open {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && inodes[name] {
			n++
		}
	}
	return n
}

// Adapters of a namespace share the sockets for kernel queries and for events. If one adapter is blocked, the others get their
// events, and the blocked one is up to date when it continues.
func TestAdaptersShareNetlink(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	adapter := func(at netip.Addr) *rig {
		r := &rig{t: t, pair: pair, gone: make(chan error, 2)}
		r.inA(func() (err error) {
			r.device, err = Open(plan.Config{Address: at, Datapath: plan.UDP})
			return err
		})
		t.Cleanup(func() { must(t, r.device.Close()) })
		r.watch()
		return r
	}
	count := func() (n int) {
		must(t, pair.A.Do(func() error {
			n = netlinkSockets(t)
			return nil
		}))
		return n
	}
	none := count() // sockets that no adapter opened
	one := adapter(pair.AddrA.Addr())
	before := count()
	two := adapter(pair.Addr6A.Addr())
	if more := count() - before; before == none || more != 0 {
		t.Errorf("one adapter has %d netlink sockets, the second %d more", before-none, more)
	}
	one.owner.Lock()
	must(t, pair.SetMTU(1400))
	one.inA(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		for i := range 2 * follow.EventsWaiting {
			must(t, nl.AddrAdd(device(pair.IfindexA), &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 99, 1, byte(i)), Mask: net.CIDRMask(32, 32)}}))
		}
		return nil
	})
	must(t, pair.SetMTU(1300))
	two.await("packets for the MTU", func() bool { return two.device.Ports()[0].MaxPacket() == 1300-48 })
	one.owner.Unlock()
	one.await("packets for the MTU", func() bool { return one.device.Ports()[0].MaxPacket() == 1300-28 })
	must(t, one.device.Close())
	must(t, pair.SetMTU(1400))
	two.await("packets for the MTU", func() bool { return two.device.Ports()[0].MaxPacket() == 1400-48 })
	must(t, two.device.Close())
	if left := count() - none; left != 0 {
		t.Errorf("%d netlink sockets are left", left)
	}
}
