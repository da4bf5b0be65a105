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
	featuresActive = 4  // ETHTOOL_A_FEATURES_ACTIVE, a bitset of names
	bitsetBits     = 3
	bitsetBit      = 1
	bitName        = 2

	typeMask = 0x3fff // NLA_TYPE_MASK
)

// SegmentsUDP is the offload of interfaces that cut runs of datagrams themselves, or pass them on whole.
const SegmentsUDP = "tx-udp-segmentation"

// Offloads names what an interface does for the kernel now, sorted, as ethtool -k does; none where it does not tell.
func Offloads(index int) []string {
	names := []string{}
	header := nl.NewRtAttr(featuresHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(headerIndex, nl.Uint32Attr(uint32(index)))
	answers, err := Execute("ethtool", featuresGet, 0, header)
	if err != nil || len(answers) == 0 {
		return names
	}
	for _, active := range parts(answers[0][HeaderLen:], featuresActive) {
		for _, list := range parts(active, bitsetBits) {
			for _, bit := range parts(list, bitsetBit) {
				for _, name := range parts(bit, bitName) {
					names = append(names, unix.ByteSliceToString(name))
				}
			}
		}
	}
	slices.Sort(names)
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
