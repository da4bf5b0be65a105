package netlab

import (
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// Constants of linux/ethtool_netlink.h that only the tests need.
const (
	ethtoolFeaturesGet    = 11 // ETHTOOL_MSG_FEATURES_GET
	ethtoolFeaturesActive = 4  // ETHTOOL_A_FEATURES_ACTIVE
)

// activeFeatures returns the names of the active features, as ethtool -k shows them.
func activeFeatures(n *Namespace, device string) (map[string]bool, error) {
	on := map[string]bool{}
	err := n.Do(func() error {
		header := nl.NewRtAttr(ethtoolFeaturesHeader|unix.NLA_F_NESTED, nil)
		header.AddRtAttr(ethtoolHeaderDevName, nl.ZeroTerminated(device))
		answers, err := genetlink.Execute(ethtoolFamily, ethtoolFeaturesGet, 0, header)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			active := child(answer[genetlink.HeaderLen:], ethtoolFeaturesActive)
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
