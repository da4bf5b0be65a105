package genetlink

import (
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/ethtool_netlink.h.
const (
	featuresGet    = 11 // ETHTOOL_MSG_FEATURES_GET
	featuresHeader = 1  // ETHTOOL_A_FEATURES_HEADER
	headerIndex    = 1  // ETHTOOL_A_HEADER_DEV_INDEX
	featuresHW     = 2  // ETHTOOL_A_FEATURES_HW, a bitset of names
	featuresActive = 4  // ETHTOOL_A_FEATURES_ACTIVE, too
	bitsetNoMask   = 1  // all bits that are named are set
	bitsetBits     = 3
	bitsetBit      = 1
	bitName        = 2
	bitValue       = 3 // with a mask: the bit is set

	typeMask = 0x3fff // NLA_TYPE_MASK
)

// SegmentsUDP is the offload of interfaces that cut runs of datagrams themselves, or pass them on whole.
const SegmentsUDP = "tx-udp-segmentation"

// Offloads names what an interface does for the kernel now, sorted, as ethtool -k does; none where it does not tell.
func Offloads(index int) []string { return features(index, featuresActive) }

// Changeable names what an interface lets ethtool -K turn on and off, sorted; none where it does not tell.
func Changeable(index int) []string { return features(index, featuresHW) }

// features names what is set in one of the sets of an interface's features.
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

// namesIn names the bits that are set in a bitset.
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

// parts are the attributes of a type that are nested in another one.
func parts(b []byte, of uint16) (list [][]byte) {
	attributes, _ := nl.ParseRouteAttr(b) // as many as are whole
	for _, a := range attributes {
		if a.Attr.Type&typeMask == of {
			list = append(list, a.Value)
		}
	}
	return list
}
