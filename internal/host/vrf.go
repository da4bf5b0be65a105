package host

import "github.com/vishvananda/netlink"

// VRFOf is the index of the VRF that an interface belongs to or is, 0 for none, in a list of all interfaces. A VRF has a routing table of its own.
func VRFOf(list []netlink.Link, index int) int {
	above := 0
	for _, l := range list {
		if l.Attrs().Index == index {
			if above = l.Attrs().MasterIndex; l.Type() == "vrf" {
				above = index
			}
		}
	}
	for _, l := range list {
		if l.Attrs().Index == above && l.Type() == "vrf" {
			return above
		}
	}
	return 0
}

// BoundTo is the index that the sockets of an adapter on an interface are bound to, in the calling thread's network namespace: the VRF that
// the interface belongs to or is, or 0 for none. Outside its VRF the kernel takes an address for an address of another machine.
func BoundTo(index int) (int, error) {
	links, err := Links(&netlink.Handle{})
	if err != nil {
		return 0, err
	}
	return VRFOf(links, index), nil
}
