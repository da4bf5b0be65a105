package nd

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// interfaceKind is how adapters behave on interfaces of a kind: the datapath that auto chooses, its reason, and the datapaths that
// are refused. All other datapaths work.
type interfaceKind struct {
	name    string
	build   network
	auto    Datapath
	because string
	refused map[Datapath]refusal
}

// refusal is the error of a datapath that is refused, and the alternatives that the error recommends.
type refusal struct {
	say     string
	instead []Datapath
	onVeth  bool // the error recommends another interface as well
}

// noDriver is the refusal on drivers without native mode. auto detects that.
var noDriver = map[Datapath]refusal{DatapathNative: {say: "has no native mode", instead: []Datapath{DatapathGeneric}}}

// beneath returns the refusals on interfaces whose packets arrive on other interfaces first.
func beneath(names string) map[Datapath]refusal {
	return map[Datapath]refusal{DatapathNative: {say: "its packets arrive on " + names, instead: []Datapath{DatapathGeneric}}}
}

// only returns the refusals on interfaces that support only these datapaths.
func only(say string, onVeth bool, works ...Datapath) map[Datapath]refusal {
	refused := map[Datapath]refusal{}
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative, DatapathTCX, DatapathRing} {
		if !slices.Contains(works, dp) {
			refused[dp] = refusal{say, works, onVeth}
		}
	}
	return refused
}

// onLoopback returns the refusals on loopback, where a ring opens if a program asks for it.
func onLoopback() map[Datapath]refusal {
	refused := only(noEthernet, true, DatapathUDP)
	delete(refused, DatapathRing)
	return refused
}

const (
	elsewhere    = "packets to it arrive on other interfaces"
	noEthernet   = "not an Ethernet interface"
	wasRefused   = "the native datapath was refused"
	unmeasured   = "no measurement for this driver"
	copiedForXDP = "on veth the kernel copies every packet once more for XDP"
)

var interfaceKinds = []interfaceKind{
	{"bond", bonds, DatapathGeneric, "arrive on nd0, nd1", beneath("nd0, nd1")},
	{"bridge", onBoth(ofANetwork, bridge), DatapathGeneric, "arrive on nd0", beneath("nd0")},
	{"bridge, link-local", onBoth(ofLinkLocal, bridge), DatapathGeneric, "arrive on nd0", beneath("nd0")},
	{"macvlan", apart(macvlan), DatapathGeneric, wasRefused, noDriver},
	{"macvlan beside its parent", onBoth(ofANetwork, macvlanBesideParent), DatapathGeneric, wasRefused, noDriver},
	{"macvlan, link-local", onBoth(ofLinkLocal, macvlanBesideParent), DatapathGeneric, wasRefused, noDriver},
	{"ipvlan L2", apart(ipvlan(netlink.IPVLAN_MODE_L2)), DatapathGeneric, wasRefused, noDriver},
	{"ipvlan L3", apart(ipvlan(netlink.IPVLAN_MODE_L3)), DatapathRing, "an ipvlan interface in L3 mode", only("in L3 mode", false, DatapathRing, DatapathUDP)},
	{"VLAN", onBoth(ofANetwork, vlan), DatapathGeneric, wasRefused, noDriver},
	{"VXLAN", onBoth(ofANetwork, vxlan), DatapathGeneric, wasRefused, noDriver},
	{"tap", tuns(netlink.TUNTAP_MODE_TAP), DatapathNative, unmeasured, nil},
	{"tun", tuns(netlink.TUNTAP_MODE_TUN), DatapathUDP, "tun0 is none", only(noEthernet, true, DatapathUDP)},
	{"dummy", byRoutes(0, dummy), DatapathUDP, "the dummy interface dummy0", only(elsewhere, true, DatapathUDP)},
	{"loopback", byRoutes(0, lo), DatapathUDP, "lo is none", onLoopback()},
	{"VRF", byRoutes(vrfTable, vrf), DatapathUDP, "the vrf interface vrf0", only(elsewhere, true, DatapathUDP)},
	{"VRF member", onBoth(ofANetwork, vrfMember), DatapathTCX, copiedForXDP, nil},
}

// TestInterfaces opens adapters on real interfaces of each usual kind. Each datapath moves bytes in both directions, or is refused
// and the recommended alternative works.
func TestInterfaces(t *testing.T) {
	netlabtest.NeedRoot(t)
	var ran atomic.Int32
	t.Cleanup(func() {
		if ran.Load() == 0 {
			t.Error("no kind of interface was tested")
		}
	})
	for i := range interfaceKinds {
		k := &interfaceKinds[i]
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			two := k.build(t)
			ran.Add(1)
			for _, dp := range []Datapath{DatapathAuto, DatapathGeneric, DatapathNative, DatapathTCX, DatapathRing, DatapathUDP} {
				t.Run(dp.String(), func(t *testing.T) { k.try(t, two, dp) })
			}
		})
	}
}

// try opens adapters with a datapath on both sides and moves bytes. If the datapath is refused, it follows the error's
// recommendation.
func (k *interfaceKind) try(t *testing.T, two *twoInterfaces, dp Datapath) {
	want, because := dp, "asked for"
	if dp == DatapathAuto {
		want, because = k.auto, k.because
	}
	no, refused := k.refused[dp]
	if !refused {
		two.move(t, dp, want, because)
		return
	}
	a, err := tryOpen(two.ns[0], AdapterConfig{Address: two.addr[0], Datapath: dp})
	if err == nil {
		must(t, a.Close())
		t.Fatal("it was not refused")
	}
	wantStatus(t, "open", err, ErrDeviceNotReady)
	wantOneLine(t, err, no.say, two.name[0])
	for _, better := range no.instead {
		wantOneLine(t, err, better.String())
		two.move(t, better, better, "asked for")
	}
	if no.onVeth {
		wantOneLine(t, err, "choose an address of")
		veth := *two
		veth.name, veth.addr = [2]string{two.pair.NameA, two.pair.NameB}, [2]netip.Addr{two.vethAddr(0), two.vethAddr(1)}
		veth.move(t, dp, dp, "asked for")
	}
}

// move opens adapters on both sides and checks the datapath and its reason. It moves bytes in both directions and checks that they
// used the datapath.
func (two *twoInterfaces) move(t *testing.T, dp, want Datapath, because string) {
	t.Helper()
	var ends [2]*Adapter
	for i, ns := range two.ns {
		a, err := tryOpen(ns, AdapterConfig{Address: two.addr[i], Datapath: dp})
		must(t, err)
		defer func() { must(t, a.Close()) }()
		if info := a.Datapath(); info.Datapath != want || info.Interface != two.name[i] || !strings.Contains(info.Reason, because) {
			t.Errorf("%s on %s: %s; want %s on %s: %s", info.Datapath, info.Interface, info.Reason, want, two.name[i], because)
		}
		ends[i] = a
	}
	for i, way := range []string{"there", "back"} {
		r := &rig{a: ends[i], b: ends[1-i]}
		t.Run(way, func(t *testing.T) { // a subtest closes its objects before the adapters are closed
			moveEverything(t, r)
			if want == DatapathRing && two.name[0] != "lo" { // to addresses of lo, packets of others arrive on other interfaces
				r.useRing(t)
			}
		})
		if s := r.a.Stats(); s.Packets.LocalIn > 0 || s.Packets.LocalOut > 0 { // packets that the kernel delivered to an AF_XDP adapter
			t.Errorf("%d packets came and %d left beside the datapath", s.Packets.LocalIn, s.Packets.LocalOut)
		}
	}
}

// useRing sends small messages until their answers arrive in the ring of a, as they do while a program polls.
func (r *rig) useRing(t *testing.T) {
	t.Helper()
	client, server := r.connect(t, 64)
	eventually(t, "a packet arrives in the ring", func() bool {
		must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 64)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, 1, RequestRead, StatusSuccess)
		return r.a.Stats().Sockets.InRing > 0
	})
}

// An adapter with the address of a bridge port or a bond member receives no neighbour answers, because the bridge or bond receives
// them. The error of Connect says so, and an address of the bridge or bond works.
func TestPortsOfBridges(t *testing.T) {
	for _, k := range []struct {
		build network
		above string
	}{{onBoth(ofANetwork, bridge), "br0"}, {bonds, "bond0"}} {
		t.Run(k.above, func(t *testing.T) {
			t.Parallel()
			two := k.build(t)
			e := newEnd(t, openIn(t, two.pair.A, AdapterConfig{Address: two.vethAddr(0)}), 64)
			err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(two.vethAddr(1), 7000), ConnectParams{})
			wantStatus(t, "connect", err, ErrHostUnreachable)
			wantOneLine(t, err, "answers go to "+k.above, netlab.DefaultName+" is a port of", "use an address of "+k.above)
			two.move(t, DatapathAuto, DatapathGeneric, "arrive on")
		})
	}
}
