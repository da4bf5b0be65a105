package genetlink

import (
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// These are numbers of linux/ethtool_netlink.h.
const (
	featuresGet    = 11 // ETHTOOL_MSG_FEATURES_GET
	featuresHeader = 1  // ETHTOOL_A_FEATURES_HEADER
	headerIndex    = 1  // ETHTOOL_A_HEADER_DEV_INDEX
	featuresHW     = 2  // ETHTOOL_A_FEATURES_HW, a bitset of names
	featuresActive = 4  // also ETHTOOL_A_FEATURES_ACTIVE
	bitsetNoMask   = 1  // all listed bits are set
	bitsetBits     = 3
	bitsetBit      = 1
	bitName        = 2
	bitValue       = 3 // with a mask: the bit is set

	typeMask = 0x3fff // NLA_TYPE_MASK
)

// SegmentsUDP is the offload of interfaces that segment GSO batches of datagrams themselves, or pass them on whole.
const SegmentsUDP = "tx-udp-segmentation"

// Offloads returns the names of an interface's active offloads, sorted, as in ethtool -k. It is empty if they are unknown.
func Offloads(index int) []string { return features(index, featuresActive) }

// Changeable returns the names of the offloads that ethtool -K can change, sorted. It is empty if they are unknown.
func Changeable(index int) []string { return features(index, featuresHW) }

// features returns the names in one of the sets of an interface's features.
func features(index int, of uint16) []string {
	names := []string{}
	header := nl.NewRtAttr(featuresHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(headerIndex, nl.Uint32Attr(uint32(index)))
	answers, err := Execute("ethtool", featuresGet, 0, header)
	if err != nil || len(answers) == 0 {
		return names
	}
	for _, set := range parts(answers[0][HeaderLen:], of) {
		names = append(names, namesIn(set)...)
	}
	slices.Sort(names)
	return names
}

// namesIn returns the names of the bits set in a bitset.
func namesIn(set []byte) (names []string) {
	all := len(parts(set, bitsetNoMask)) > 0
	for _, list := range parts(set, bitsetBits) {
		for _, bit := range parts(list, bitsetBit) {
			if !all && len(parts(bit, bitValue)) == 0 {
				continue
			}
			for _, name := range parts(bit, bitName) {
				names = append(names, unix.ByteSliceToString(name))
			}
		}
	}
	return names
}

// parts returns the attributes of one type that are nested in another attribute.
func parts(b []byte, of uint16) (list [][]byte) {
	attributes, _ := nl.ParseRouteAttr(b) // up to the first truncated attribute
	for _, a := range attributes {
		if a.Attr.Type&typeMask == of {
			list = append(list, a.Value)
		}
	}
	return list
}
