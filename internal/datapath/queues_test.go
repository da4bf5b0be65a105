package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// The kernel leaves in its ring what the socket of a queue sends that only receives, without a word: virtio-net has such
// queues while a program is attached, when it has more of them than CPUs.
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

		d, err := Open(Config{Address: pair.AddrA.Addr()})
		must(t, err)
		must(t, d.Close())
		uneven := Config{Address: netip.MustParseAddr("10.98.0.1"), Rung: RungGeneric}
		for range 2 { // the second time nothing of the first one is left
			if _, err = Open(uneven); err == nil || !strings.Contains(err.Error(), "receives on 2 queues and can send on 1 only") {
				t.Errorf("opened on queues that cannot send: %v", err)
			}
		}
		uneven.Rung = RungAuto
		d, err = Open(uneven)
		must(t, err)
		wantReason(t, d, RungRing, "can send on 1 only")
		must(t, d.Close())
		return nil
	}))
}
