package host

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message makes a message in the kernel's format.
func message(kind uint16, header []byte, attributes ...*nl.RtAttr) *syscall.NetlinkMessage {
	m := &syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: header}
	for _, a := range attributes {
		m.Data = append(m.Data, a.Serialize()...)
	}
	return m
}

func linkMessage(kind uint16, family uint8, attributes ...*nl.RtAttr) *syscall.NetlinkMessage {
	return message(kind, (&nl.IfInfomsg{IfInfomsg: unix.IfInfomsg{Family: family, Index: ourIndex, Flags: working}}).Serialize(), attributes...)
}

func neighbourMessage(kind uint16, family uint8, state uint16, attributes ...*nl.RtAttr) *syscall.NetlinkMessage {
	return message(kind, (&netlink.Ndmsg{Family: family, Index: ourIndex, State: state}).Serialize(), attributes...)
}

// TestParseRoute parses synthetic messages, and ignores messages of other kinds.
func TestParseRoute(t *testing.T) {
	mtu, mac := nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(1400)), nl.NewRtAttr(unix.IFLA_ADDRESS, macA[:])
	name, master := nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("nd0")), nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(3))
	address := func(kind uint16) *syscall.NetlinkMessage {
		header := []byte{unix.AF_INET, 24, 0, 0, ourIndex, 0, 0, 0}
		return message(kind, header, nl.NewRtAttr(unix.IFA_ADDRESS, peerOne.AsSlice()), nl.NewRtAttr(unix.IFA_LOCAL, ourAddr.AsSlice()))
	}
	dst, to := nl.NewRtAttr(netlink.NDA_DST, peerOne.AsSlice()), nl.NewRtAttr(netlink.NDA_LLADDR, macB[:])
	prefix := netip.MustParsePrefix("10.99.0.1/24")
	facts := LinkFacts{Name: "nd0", Names: "nd0", Up: true, MTU: 1400, MAC: macA, Master: 3}
	for _, c := range []struct {
		name string
		m    *syscall.NetlinkMessage
		want Event
		ok   bool
	}{
		{"link", linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, mtu, mac, name, master), Event{Kind: EventLink, Index: ourIndex, Link: facts}, true},
		{"wireless event", linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, name), Event{}, false},
		{"link removed", linkMessage(unix.RTM_DELLINK, unix.AF_UNSPEC, mtu, name), Event{Kind: EventLinkGone, Index: ourIndex}, true},
		{"port leaves a bridge", linkMessage(unix.RTM_DELLINK, unix.AF_BRIDGE, mtu, name), Event{}, false},
		{"address", address(unix.RTM_NEWADDR), Event{Kind: EventAddress, Index: ourIndex, Prefix: prefix, Peer: peerOne}, true},
		{"address removed", address(unix.RTM_DELADDR), Event{Kind: EventAddressGone, Index: ourIndex, Prefix: prefix, Peer: peerOne}, true},
		{
			"neighbour", neighbourMessage(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_STALE, dst, to),
			Event{Kind: EventNeighbour, Index: ourIndex, Hop: peerOne, MAC: macB},
			true,
		},
		{"neighbour being asked", neighbourMessage(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_INCOMPLETE, dst), Event{}, false},
		{
			"neighbour silent", neighbourMessage(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_FAILED, dst),
			Event{Kind: EventNeighbourSilent, Index: ourIndex, Hop: peerOne},
			true,
		},
		{
			"neighbour collected", neighbourMessage(unix.RTM_DELNEIGH, unix.AF_INET, unix.NUD_STALE, dst, to),
			Event{Kind: EventNeighbourGone, Index: ourIndex, Hop: peerOne},
			true,
		},
		{"neighbour of a bridge", neighbourMessage(unix.RTM_DELNEIGH, unix.AF_BRIDGE, unix.NUD_STALE, to), Event{}, false},
		{"route", message(unix.RTM_DELROUTE, make([]byte, unix.SizeofRtMsg)), Event{Kind: EventRoutes}, true},
		{"rule", message(unix.RTM_NEWRULE, nil), Event{Kind: EventRoutes}, true},
		{"next hop", message(unix.RTM_NEWNEXTHOP, nil), Event{Kind: EventRoutes}, true},
		{"something else", message(unix.RTM_NEWQDISC, nil), Event{}, false},
	} {
		got, ok := parseRoute(c.m)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %t, want %+v", c.name, got, ok, c.want)
		}
		for n := range min(unix.SizeofIfAddrmsg, len(c.m.Data)) { // with a truncated header
			parseRoute(&syscall.NetlinkMessage{Header: c.m.Header, Data: c.m.Data[:n]})
		}
	}
}

// TestParseEthtool sums up the queues of a notification.
func TestParseEthtool(t *testing.T) {
	attributes := func(index uint32, rx, tx, combined int) []*nl.RtAttr {
		header := nl.NewRtAttr(ethtoolHeader|unix.NLA_F_NESTED, nil)
		header.AddRtAttr(ethtoolHeaderIndex, nl.Uint32Attr(index))
		list := []*nl.RtAttr{header}
		for kind, n := range map[int]int{channelsRx: rx, channelsTx: tx, channelsCombined: combined} {
			if n > 0 {
				list = append(list, nl.NewRtAttr(kind, nl.Uint32Attr(uint32(n))))
			}
		}
		return list
	}
	header := func(command byte) []byte { return []byte{command, 1, 0, 0} }
	for _, c := range []struct {
		name string
		m    *syscall.NetlinkMessage
		want Channels
		ok   bool
	}{
		{"separate", message(0, header(ethtoolChannelsNote), attributes(ourIndex, 2, 3, 0)...), Channels{2, 3}, true},
		{"combined", message(0, header(ethtoolChannelsNote), attributes(ourIndex, 0, 0, 8)...), Channels{8, 8}, true},
		{"both", message(0, header(ethtoolChannelsNote), attributes(ourIndex, 1, 0, 8)...), Channels{9, 8}, true},
		{"another message", message(0, header(3), attributes(ourIndex, 2, 3, 0)...), Channels{}, false},
		{"no interface", message(0, header(ethtoolChannelsNote), attributes(0, 2, 3, 0)...), Channels{}, false},
		{"no queues", message(0, header(ethtoolChannelsNote), attributes(ourIndex, 0, 0, 0)...), Channels{}, false},
	} {
		got, ok := parseEthtool(c.m)
		if ok != c.ok || ok && (got != Event{Kind: EventChannels, Index: ourIndex, Channels: c.want}) {
			t.Errorf("%s: %+v, %t, want %+v", c.name, got, ok, c.want)
		}
		for n := range 4 { // with a truncated header
			parseEthtool(&syscall.NetlinkMessage{Data: c.m.Data[:n]})
		}
	}
}

// A neighbour is usable only in states in which the kernel would send to it, whatever address the message has.
func TestNeighbourStates(t *testing.T) {
	dst, to := nl.NewRtAttr(netlink.NDA_DST, peerOne.AsSlice()), nl.NewRtAttr(netlink.NDA_LLADDR, macB[:])
	for state, want := range map[uint16]bool{
		unix.NUD_REACHABLE: true, unix.NUD_STALE: true, unix.NUD_DELAY: true, unix.NUD_PROBE: true, unix.NUD_PERMANENT: true,
		unix.NUD_NOARP: true, unix.NUD_NONE: false, unix.NUD_INCOMPLETE: false, unix.NUD_FAILED: false,
	} {
		e, ok := parseRoute(neighbourMessage(unix.RTM_NEWNEIGH, unix.AF_INET, state, dst, to))
		if got := ok && e.Kind == EventNeighbour; got != want {
			t.Errorf("state %#x: %+v, %v", state, e, ok)
		}
	}
}

// On a point-to-point link a message has two addresses in either order, and one of them is ours.
func TestAddressOfAPointToPointLink(t *testing.T) {
	own, peer := nl.NewRtAttr(unix.IFA_LOCAL, ourAddr.AsSlice()), nl.NewRtAttr(unix.IFA_ADDRESS, peerOne.AsSlice())
	for _, both := range [][2]*nl.RtAttr{{own, peer}, {peer, own}} {
		header := []byte{unix.AF_INET, 32, 0, 0, ourIndex, 0, 0, 0}
		e, ok := parseRoute(message(unix.RTM_NEWADDR, header, both[0], both[1]))
		if !ok || e.Prefix.Addr() != ourAddr {
			t.Errorf("%+v, %v, want the prefix of %s", e, ok, ourAddr)
		}
	}
}
