package ndhealth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/xdp"
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

// ask sends a generic netlink request and returns the attributes of the first answer.
func ask(family string, command uint8, attribute *nl.RtAttr) (map[uint16][]byte, error) {
	answers, err := genetlink.Execute(family, command, 0, attribute)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, errors.New("the kernel sent no answer")
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

// rings are the descriptor rings of a NIC; 0 if unknown.
type rings struct{ rx, rxMax, tx, txMax int }

func ringsOf(index int) rings {
	a, err := askEthtool(ethtoolRingsGet, index)
	if err != nil {
		return rings{} // virtual interfaces have none
	}
	return rings{number(a[ringsRx]), number(a[ringsRxMax]), number(a[ringsTx]), number(a[ringsTxMax])}
}

// queuesApart reports whether a driver has separate receive and transmit queues, and no combined ones.
func queuesApart(index int) bool {
	a, err := askEthtool(ethtoolChannelsGet, index)
	return err == nil && number(a[channelsRxMax]) > 0 && number(a[channelsCombined]) == 0
}

// spreadOf returns the receive queues in the NIC's indirection table, or nil if unknown.
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

// features are the native XDP features of a driver (linux/netdev.h, enum netdev_xdp_act).
type features uint64

const (
	featureBasic    features = 1 << 0
	featureRedirect features = 1 << 1
	featureZeroCopy features = 1 << 3
	featureFrags    features = 1 << 5 // packets of several buffers
)

// featuresOf returns the features of an interface's driver. known is false before Linux 6.3.
func featuresOf(index int) (f features, known bool) {
	a, err := ask("netdev", netdevDevGet, nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(index))))
	if b := a[netdevXDPFeatures]; err == nil && len(b) >= 8 {
		return features(binary.NativeEndian.Uint64(b)), true
	}
	return 0, false
}

// udpSocket is a UDP socket of the calling thread's network namespace.
type udpSocket struct {
	local  netip.Addr
	device int  // interface or VRF that it is bound to; 0 for none
	only6  bool // an IPv6 socket that does not receive IPv4
	uid    uint32
	inode  uint32
}

// Lengths and offsets of linux/inet_diag.h: struct inet_diag_req_v2, and inet_diag_msg with attributes behind it.
const (
	diagRequestLen   = 56
	diagRequestState = 4 // a bit mask of states
	diagRequestPort  = 8
	diagLocal        = 8
	diagDevice       = 40
	diagUser         = 64
	diagInode        = 68
	diagLen          = 72
	diagOnly6        = 11 // INET_DIAG_SKV6ONLY, for sockets without a peer
)

// udpSocketsOn lists the UDP sockets with a local port.
func udpSocketsOn(port uint16) (list []udpSocket, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		body := make([]byte, diagRequestLen)
		body[0], body[1] = family, unix.IPPROTO_UDP
		binary.NativeEndian.PutUint32(body[diagRequestState:], ^uint32(0))
		binary.BigEndian.PutUint16(body[diagRequestPort:], port)
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		request.AddRawData(body)
		answers, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			s, err := parseSocket(a)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// parseSocket parses one answer.
func parseSocket(b []byte) (s udpSocket, err error) {
	if len(b) < diagLen {
		return s, fmt.Errorf("the kernel's answer about a socket has only %d bytes", len(b))
	}
	s.local = netip.AddrFrom4([4]byte(b[diagLocal:]))
	if b[0] == unix.AF_INET6 {
		s.local = netip.AddrFrom16([16]byte(b[diagLocal:]))
	}
	s.device, s.uid, s.inode = number(b[diagDevice:]), binary.NativeEndian.Uint32(b[diagUser:]), binary.NativeEndian.Uint32(b[diagInode:])
	attributes, err := nl.ParseRouteAttr(b[diagLen:])
	for _, a := range attributes {
		s.only6 = s.only6 || a.Attr.Type == diagOnly6 && len(a.Value) > 0 && a.Value[0] != 0
	}
	return s, err
}

// carrierOf reports whether the interface has a carrier. It uses an ioctl if netlink is forbidden, because the operational state
// changes a moment later.
func carrierOf(nic *xdp.NIC) bool {
	if l, err := netlink.LinkByIndex(nic.Index); err == nil {
		return l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(nic.Name)
	return err == nil && unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r) == nil && r.Uint16()&unix.IFF_RUNNING != 0
}

// qdiscOf returns the name of the root queueing discipline of an interface, or "" if unknown.
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
