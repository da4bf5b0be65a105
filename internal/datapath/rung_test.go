package datapath

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestChoose: native mode is taken where it works and packets do not vanish, by what is known about the interface.
func TestChoose(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	one, two := []string{"eth1"}, []string{"eth1", "eth2"}
	for _, c := range []struct {
		name     string
		want     Rung
		at       stack
		rung     Rung
		fallback bool
		say      string // in the reason, or in the error when rung is RungAuto
	}{
		{"veth", RungAuto, stack{driver: "veth", kind: "veth"}, RungTCX, true, "veth"},
		{"a NIC", RungAuto, stack{driver: "ice", kind: "device"}, RungNative, true, "no measurement"},
		{"no driver", RungAuto, stack{kind: "device"}, RungNative, true, "no measurement"},
		{"native asked for", RungNative, stack{driver: "veth", kind: "veth"}, RungNative, false, "asked for"},
		{"generic asked for", RungGeneric, stack{driver: "ice", kind: "device"}, RungGeneric, false, "asked for"},

		{"bond", RungAuto, stack{driver: "bonding", kind: "bond", lowers: two}, RungGeneric, false, "arrive on eth1, eth2"},
		{"bond without members yet", RungAuto, stack{driver: "bonding", kind: "bond"}, RungGeneric, false, "members"},
		{"bond, generic", RungGeneric, stack{driver: "bonding", kind: "bond", lowers: two}, RungGeneric, false, "asked for"},
		{"bond, native", RungNative, stack{name: "bond0", driver: "bonding", kind: "bond", lowers: two}, RungAuto, false, "arrive on eth1, eth2"},
		{"team", RungAuto, stack{driver: "team", kind: "team", lowers: one}, RungGeneric, false, "arrive on eth1"},
		{"bridge", RungAuto, stack{driver: "bridge", kind: "bridge", lowers: one}, RungGeneric, false, "arrive on eth1"},
		{"netvsc with VF", RungAuto, stack{driver: "hv_netvsc", kind: "device", lowers: one}, RungGeneric, false, "arrive on eth1"},
		{"netvsc without VF", RungAuto, stack{driver: "hv_netvsc", kind: "device"}, RungGeneric, false, "virtual function"},
		{"netvsc without VF, native", RungNative, stack{driver: "hv_netvsc", kind: "device"}, RungNative, false, "asked for"},
		{"netvsc with VF, native", RungNative, stack{driver: "hv_netvsc", kind: "device", lowers: one}, RungAuto, false, "eth1"},
		{"failover", RungAuto, stack{driver: "net_failover", kind: "device", lowers: two}, RungGeneric, false, "eth1, eth2"},
		{"something unknown with a lower one", RungAuto, stack{driver: "new", kind: "new", lowers: one}, RungGeneric, false, "eth1"},
		{"dummy", RungAuto, stack{name: "dummy0", kind: "dummy"}, RungAuto, false, "arrive on other interfaces"},
		{"ipvlan in L3 mode", RungGeneric, stack{name: "ipvlan0", kind: "ipvlan", layer3: true}, RungAuto, false, "ring datapath or udp"},
		{"vrf", RungGeneric, stack{name: "red", kind: "vrf", lowers: one}, RungAuto, false, "udp datapath"},
	} {
		got, err := choose(c.want, &c.at, addr, "")
		said := got.reason
		if err != nil {
			said = err.Error()
		}
		if got.rung != c.rung || got.fallback != c.fallback || !strings.Contains(said, c.say) || (err != nil) != (c.rung == RungAuto) {
			t.Errorf("%s: %v (%s), %t, %v", c.name, got.rung, got.reason, got.fallback, err)
		}
		if err != nil && !strings.Contains(err.Error(), "open 192.0.2.1 on interface "+c.at.name) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// auto takes plain sockets where no socket of AF_XDP would see a packet, and says why.
	_, err := choose(RungAuto, &stack{name: "dummy0", kind: "dummy"}, addr, "")
	if reason := withoutXDP(err); !strings.Contains(reason, "dummy interface dummy0") {
		t.Errorf("reason %q", reason)
	}
	_, err = choose(RungAuto, &stack{name: "ipvlan0", kind: "ipvlan", layer3: true}, addr, "")
	if reason := withoutXDP(err); !strings.Contains(reason, "ipvlan0, an ipvlan interface in L3 mode") {
		t.Errorf("reason %q", reason)
	}
}

// Where there can be no ring, auto takes generic mode on veth, and a ring that is asked for is refused with the reason.
func TestChooseWithoutARing(t *testing.T) {
	addr, veth := netip.MustParseAddr("192.0.2.1"), stack{name: "veth0", driver: "veth", kind: "veth"}
	const why = "interface veth0 has 4 receive queues"
	if got, err := choose(RungAuto, &veth, addr, why); err != nil || got.rung != RungGeneric || got.fallback {
		t.Errorf("auto takes %v (%s), %t, %v", got.rung, got.reason, got.fallback, err)
	}
	if got, err := choose(RungTCX, &veth, addr, ""); err != nil || got.rung != RungTCX || got.fallback {
		t.Errorf("what was asked for became %v (%s), %t, %v", got.rung, got.reason, got.fallback, err)
	}
	if _, err := choose(RungTCX, &veth, addr, why); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "open 192.0.2.1 on interface veth0") {
		t.Errorf("a ring where there can be none: %v", err)
	}
}

func TestStackOf(t *testing.T) {
	link := func(l netlink.Link, index, master int, name string) netlink.Link {
		*l.Attrs() = netlink.LinkAttrs{Index: index, MasterIndex: master, Name: name}
		return l
	}
	list := []netlink.Link{
		link(&netlink.Device{}, 1, 0, "lo"), link(&netlink.Device{}, 3, 5, "eth2"), link(&netlink.Bond{}, 5, 0, "bond0"),
		link(&netlink.Device{}, 2, 5, "eth1"), link(&netlink.Vlan{}, 6, 7, "bond0.5"),
		link(&netlink.IPVlan{Mode: netlink.IPVLAN_MODE_L2}, 8, 0, "l2"), link(&netlink.IPVlan{Mode: netlink.IPVLAN_MODE_L3}, 9, 0, "l3"),
	}
	got := stackOf(list, 5, "bonding")
	if got.name != "bond0" || got.kind != "bond" || !slices.Equal(got.lowers, []string{"eth1", "eth2"}) {
		t.Errorf("%+v", got)
	}
	list[0].Attrs().RawFlags = unix.IFF_LOOPBACK
	for index, elsewhere := range map[int]bool{1: true, 2: false, 8: false} {
		if s := stackOf(list, index, ""); s.elsewhere() != elsewhere {
			t.Errorf("%s: packets arrive elsewhere: %t", s.name, !elsewhere)
		}
	}
	if stackOf(list, 8, "").layer3 || !stackOf(list, 9, "").layer3 {
		t.Error("the mode of an ipvlan interface is not known")
	}
	if got := stackOf(list, 2, ""); got.kind != "device" || got.lowers != nil {
		t.Errorf("%+v", got)
	}
}

func TestRungNames(t *testing.T) {
	for _, r := range []Rung{RungAuto, RungGeneric, RungNative, RungUDP, RungRing, RungTCX} {
		if got, err := ParseRung(r.String()); got != r || err != nil {
			t.Errorf("ParseRung(%q) = %v, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "Native", "rung 9", Rung(9).String()} {
		if _, err := ParseRung(s); err == nil || !strings.Contains(err.Error(), "use auto, generic, native, udp, ring or tcx") {
			t.Errorf("ParseRung(%q): %v", s, err)
		}
	}
}
