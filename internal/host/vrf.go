package host

import "github.com/vishvananda/netlink"

// VRFOf returns the index of the VRF that an interface belongs to or is, or 0 for none, from a list of all interfaces. A VRF has a
// routing table of its own.
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

// BoundTo returns the index to which the sockets of an adapter on an interface are bound, in the calling thread's network namespace. It
// is the index of the VRF that the interface belongs to or is, or 0 for none. Outside its VRF the kernel takes an address of the
// interface for another machine's.
func BoundTo(index int) (int, error) {
	links, err := Links(&netlink.Handle{})
	if err != nil {
		return 0, err
	}
	return VRFOf(links, index), nil
}
