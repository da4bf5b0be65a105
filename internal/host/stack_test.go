package host

import (
	"slices"
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
	if got.Name != "bond0" || got.Kind != "bond" || !slices.Equal(got.Lowers, []string{"eth1", "eth2"}) {
		t.Errorf("%+v", got)
	}
	list[0].Attrs().RawFlags = unix.IFF_LOOPBACK
	for index, elsewhere := range map[int]bool{1: true, 2: false, 8: false} {
		if s := stackOf(list, index, ""); s.Elsewhere() != elsewhere {
			t.Errorf("%s: packets arrive elsewhere: %t", s.Name, !elsewhere)
		}
	}
	if stackOf(list, 8, "").Layer3 || !stackOf(list, 9, "").Layer3 {
		t.Error("the mode of an ipvlan interface is not known")
	}
	if got := stackOf(list, 2, ""); got.Kind != "device" || got.Lowers != nil {
		t.Errorf("%+v", got)
	}
}

func TestVRFOf(t *testing.T) {
	link := func(l netlink.Link, index, master int) netlink.Link {
		*l.Attrs() = netlink.LinkAttrs{Index: index, MasterIndex: master}
		return l
	}
	list := []netlink.Link{
		link(&netlink.Device{}, 1, 0), link(&netlink.Device{}, 2, 5), link(&netlink.Device{}, 3, 6), link(&netlink.Device{}, 4, 0),
		link(&netlink.Vrf{}, 5, 0), link(&netlink.Bridge{}, 6, 0),
	}
	for index, want := range map[int]int{1: 0, 2: 5, 3: 0, 4: 0, 5: 5, 99: 0} {
		if got := VRFOf(list, index); got != want {
			t.Errorf("interface %d belongs to %d, want %d", index, got, want)
		}
	}
}
