package netlab

import (
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/ethtool_netlink.h that only the tests need.
const (
	ethtoolFeaturesGet    = 11 // ETHTOOL_MSG_FEATURES_GET
	ethtoolFeaturesActive = 4  // ETHTOOL_A_FEATURES_ACTIVE
)

// activeFeatures returns the names of the features that are on, as ethtool -k shows them.
func activeFeatures(n *Namespace, device string) (map[string]bool, error) {
	on := map[string]bool{}
	err := n.Do(func() error {
		family, err := netlink.GenlFamilyGet(ethtoolFamily)
		if err != nil {
			return err
		}
		request := nl.NewNetlinkRequest(int(family.ID), 0)
		request.AddData(&nl.Genlmsg{Command: ethtoolFeaturesGet, Version: ethtoolVersion})
		header := nl.NewRtAttr(ethtoolFeaturesHeader|unix.NLA_F_NESTED, nil)
		header.AddRtAttr(ethtoolHeaderDevName, nl.ZeroTerminated(device))
		request.AddData(header)
		answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			active := child(answer[nl.SizeofGenlmsg:], ethtoolFeaturesActive)
			bits, err := nl.ParseRouteAttr(child(active, ethtoolBitsetBits))
			if err != nil {
				return err
			}
			for _, bit := range bits {
				on[strings.TrimRight(string(child(bit.Value, ethtoolBitName)), "\x00")] = true
			}
		}
		return nil
	})
	return on, err
}

func child(list []byte, want uint16) []byte {
	attrs, err := nl.ParseRouteAttr(list)
	if err != nil {
		return nil
	}
	for _, attr := range attrs {
		if attr.Attr.Type&^unix.NLA_F_NESTED == want {
			return attr.Value
		}
	}
	return nil
}
