package datapath

import (
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
