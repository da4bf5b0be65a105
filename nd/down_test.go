package nd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// If an adapter is opened while its interface is down, it uses plain sockets, reports why, and moves bytes as soon as the interface
// is up. An explicit request for AF_XDP is refused with an error that states the remedy.
func TestOpenedWhileDown(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	set := func(f func(netlink.Link) error) {
		t.Helper()
		must(t, pair.A.Do(func() error { return f(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}) }))
	}
	set(netlink.LinkSetDown)
	const remedy = "ip link set nd0 up"
	must(t, pair.A.Do(func() error {
		_, err := OpenAdapter(AdapterConfig{Address: pair.AddrA.Addr(), Datapath: DatapathGeneric})
		wantStatus(t, "generic", err, ErrDeviceNotReady)
		wantOneLine(t, err, "interface nd0: the interface is down", remedy)
		return nil
	}))
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()})
	if i := a.Datapath(); i.Datapath != DatapathUDP || !strings.Contains(i.Reason, "nd0 was down") || !strings.Contains(i.Reason, remedy) {
		t.Errorf("%s: %s", i.Datapath, i.Reason)
	}
	e := newEnd(t, a, 4096)
	wantStatus(t, "connect", e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(pair.AddrB.Addr(), 7000), ConnectParams{}), ErrNetworkUnreachable)
	set(netlink.LinkSetUp)
	b := openIn(t, pair.B, AdapterConfig{Address: pair.AddrB.Addr()})
	moveEverything(t, &rig{a: a, b: b})
	moveEverything(t, &rig{a: b, b: a})
}
