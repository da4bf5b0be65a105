package ndhealth

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// Numbers of linux/ethtool_netlink.h and linux/netdev.h.
const (
	ethtoolRingsGet  = 15 // ETHTOOL_MSG_RINGS_GET; every header is attribute 1
	ethtoolRSSGet    = 38 // ETHTOOL_MSG_RSS_GET, Linux 6.2
	ethtoolHeader    = 1
	ethtoolHeaderDev = 1 // ETHTOOL_A_HEADER_DEV_INDEX
	ringsRxMax       = 2
	ringsTxMax       = 5
	ringsRx          = 6
	ringsTx          = 9
	rssIndirection   = 4

	ethtoolChannelsGet = 17 // ETHTOOL_MSG_CHANNELS_GET
	channelsRxMax      = 2
	channelsCombined   = 5 // ETHTOOL_A_CHANNELS_COMBINED_MAX

	netdevDevGet      = 1 // NETDEV_CMD_DEV_GET, Linux 6.3
	netdevIfindex     = 1
	netdevXDPFeatures = 3

	typeMask = 0x3fff // NLA_TYPE_MASK
)

// ask sends a generic netlink request and returns the attributes of its first answer.
func ask(family string, command uint8, attribute *nl.RtAttr) (map[uint16][]byte, error) {
	answers, err := genetlink.Execute(family, command, 0, attribute)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, errors.New("no answer")
	}
	attributes, err := nl.ParseRouteAttr(answers[0][genetlink.HeaderLen:])
	found := map[uint16][]byte{}
	for _, a := range attributes {
		found[a.Attr.Type&typeMask] = a.Value
	}
	return found, err
}

func askEthtool(command uint8, index int) (map[uint16][]byte, error) {
	header := nl.NewRtAttr(ethtoolHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(ethtoolHeaderDev, nl.Uint32Attr(uint32(index)))
	return ask("ethtool", command, header)
}

func number(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(b))
}

// rings is the descriptor rings of a NIC, 0 where the driver does not tell.
type rings struct{ rx, rxMax, tx, txMax int }

func ringsOf(index int) rings {
	a, err := askEthtool(ethtoolRingsGet, index)
	if err != nil {
		return rings{} // virtual interfaces have none
	}
	return rings{number(a[ringsRx]), number(a[ringsRxMax]), number(a[ringsTx]), number(a[ringsTxMax])}
}

// queuesApart says that a driver counts receive and transmit queues each by itself, and has no combined ones.
func queuesApart(index int) bool {
	a, err := askEthtool(ethtoolChannelsGet, index)
	return err == nil && number(a[channelsRxMax]) > 0 && number(a[channelsCombined]) == 0
}

// spreadOf returns to which receive queues the NIC's indirection table points, nil when the driver does not tell.
func spreadOf(index int) map[int]bool {
	a, err := askEthtool(ethtoolRSSGet, index)
	if err != nil {
		return nil
	}
	table := a[rssIndirection]
	if len(table) == 0 {
		return nil
	}
	queues := map[int]bool{}
	for ; len(table) >= 4; table = table[4:] {
		queues[number(table)] = true
	}
	return queues
}

// features are what a driver says of its native XDP (linux/netdev.h, enum netdev_xdp_act).
type features uint64

const (
	featureBasic    features = 1 << 0
	featureRedirect features = 1 << 1
	featureZeroCopy features = 1 << 3
	featureFrags    features = 1 << 5 // packets of several buffers
)

// featuresOf returns them; known is false before Linux 6.3.
func featuresOf(index int) (f features, known bool) {
	a, err := ask("netdev", netdevDevGet, nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(index))))
	if b := a[netdevXDPFeatures]; err == nil && len(b) >= 8 {
		return features(binary.NativeEndian.Uint64(b)), true
	}
	return 0, false
}

// carrierOf says whether something is at the other end; the interface's operational state says so a moment later.
func carrierOf(index int) bool {
	l, err := netlink.LinkByIndex(index)
	return err == nil && l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
}

// qdiscOf names the root queueing discipline of an interface, "" when the kernel does not tell.
func qdiscOf(index int) string {
	list, err := netlink.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}})
	if err != nil {
		return ""
	}
	for _, q := range list {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q.Type()
		}
	}
	return ""
}
