package datapath

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// eventKind is what the kernel told.
type eventKind uint8

const (
	eventLink            eventKind = iota // an interface is there, or is another one than before
	eventLinkGone                         // an interface was removed
	eventAddress                          // an interface has an address
	eventAddressGone                      // an address was removed
	eventNeighbour                        // a neighbour can be sent to
	eventNeighbourGone                    // the kernel forgot a neighbour
	eventNeighbourSilent                  // a neighbour does not answer
	eventRoutes                           // routes, rules or next hops are others than before
	eventChannels                         // the queues of an interface
	eventOverflow                         // events were lost, because nobody took them in time
	eventBroken                           // no events will come any more
)

// event is one thing that the kernel told.
type event struct {
	kind     eventKind
	index    int // of the interface
	link     linkFacts
	prefix   netip.Prefix
	peer     netip.Addr // beside prefix, as assigned.peer
	hop      netip.Addr
	mac      [6]byte
	channels channels
	err      error // of eventBroken
}

// parseRoute parses a message of route netlink. ok is false for a message that says nothing about an
// interface's state.
func parseRoute(m *syscall.NetlinkMessage) (e event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return parseAddress(m)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return parseNeighbour(m)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return event{kind: eventRoutes}, true
	}
	return e, false
}

func parseLink(m *syscall.NetlinkMessage) (e event, ok bool) {
	// A bridge tells of its ports by messages of its own family, whose removal is not that of the interface.
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return e, false
	}
	l, err := netlink.LinkDeserialize(&unix.NlMsghdr{Type: m.Header.Type}, m.Data)
	if err != nil {
		return e, false
	}
	a := l.Attrs()
	if m.Header.Type == unix.RTM_DELLINK {
		return event{kind: eventLinkGone, index: a.Index}, true
	}
	// Events of wireless drivers come as messages without the rest.
	return event{kind: eventLink, index: a.Index, link: factsOf(a)}, a.MTU > 0
}

// working are the flags of an interface that is set up and has something at its other end.
const working = unix.IFF_UP | unix.IFF_LOWER_UP

// nameSeparator stands between names: no interface has it in its name.
const nameSeparator = "/"

// namesOf are all names of an interface.
func namesOf(a *netlink.LinkAttrs) string {
	return strings.Join(append([]string{a.Name}, a.AltNames...), nameSeparator)
}

func factsOf(a *netlink.LinkAttrs) linkFacts {
	f := linkFacts{name: a.Name, names: namesOf(a), up: a.RawFlags&working == working, mtu: a.MTU, master: a.MasterIndex}
	copy(f.mac[:], a.HardwareAddr)
	return f
}

func parseAddress(m *syscall.NetlinkMessage) (e event, ok bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return e, false
	}
	bits, index := int(m.Data[1]), int(binary.NativeEndian.Uint32(m.Data[4:]))
	attributes, err := nl.ParseRouteAttr(m.Data[unix.SizeofIfAddrmsg:])
	if err != nil {
		return e, false
	}
	var ip, peer netip.Addr
	for i := range attributes {
		switch a := &attributes[i]; a.Attr.Type {
		case unix.IFA_LOCAL:
			ip, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_ADDRESS: // on a point-to-point link the peer's address, if it has one
			peer, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if !ip.IsValid() { // as for IPv6 without another end
		ip = peer
	}
	if peer == ip {
		peer = netip.Addr{}
	}
	e = event{kind: eventAddress, index: index, prefix: netip.PrefixFrom(ip, bits), peer: peer}
	if m.Header.Type == unix.RTM_DELADDR {
		e.kind = eventAddressGone
	}
	return e, e.prefix.IsValid()
}

func parseNeighbour(m *syscall.NetlinkMessage) (e event, ok bool) {
	index, at, n, ok := entryOf(m.Data)
	e = event{index: index, hop: at}
	switch {
	case m.Header.Type == unix.RTM_DELNEIGH:
		e.kind = eventNeighbourGone
	case n.known:
		e.kind, e.mac = eventNeighbour, n.mac
	case n.state&unix.NUD_FAILED != 0:
		e.kind = eventNeighbourSilent
	default:
		return e, false // being asked for
	}
	return e, ok
}

// Numbers of linux/ethtool_netlink.h.
const (
	ethtoolFamily       = "ethtool"
	ethtoolMonitor      = "monitor" // ETHTOOL_MCGRP_MONITOR_NAME
	ethtoolChannelsGet  = 17        // ETHTOOL_MSG_CHANNELS_GET
	ethtoolChannelsNote = 19        // ETHTOOL_MSG_CHANNELS_NTF
	ethtoolHeader       = 1         // ETHTOOL_A_CHANNELS_HEADER
	ethtoolHeaderIndex  = 1         // ETHTOOL_A_HEADER_DEV_INDEX
	channelsRx          = 6
	channelsTx          = 7
	channelsCombined    = 9
	attributeType       = 0x3fff // NLA_TYPE_MASK
)

// askChannels asks for the queues that an interface works with; nil when its driver does not tell.
func askChannels(c *genetlink.Conn, index int) *channels {
	header := nl.NewRtAttr(ethtoolHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(ethtoolHeaderIndex, nl.Uint32Attr(uint32(index)))
	answers, err := c.Execute(ethtoolFamily, ethtoolChannelsGet, 0, header)
	if err != nil || len(answers) == 0 {
		return nil
	}
	if _, n, ok := channelsOf(answers[0][genetlink.HeaderLen:]); ok {
		return &n
	}
	return nil
}

// parseEthtool understands a notification of ethtool netlink.
func parseEthtool(m *syscall.NetlinkMessage) (e event, ok bool) {
	if len(m.Data) < genetlink.HeaderLen || m.Data[0] != ethtoolChannelsNote {
		return e, false
	}
	e.kind = eventChannels
	e.index, e.channels, ok = channelsOf(m.Data[genetlink.HeaderLen:])
	return e, ok
}

// channelsOf reads the attributes of an answer or a notification. Combined queues receive and send.
func channelsOf(attributes []byte) (index int, n channels, ok bool) {
	list, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return 0, n, false
	}
	for i := range list {
		a := &list[i]
		switch kind := a.Attr.Type & attributeType; {
		case kind == ethtoolHeader:
			inner, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return 0, n, false
			}
			for j := range inner {
				if inner[j].Attr.Type&attributeType == ethtoolHeaderIndex && len(inner[j].Value) >= 4 {
					index = int(binary.NativeEndian.Uint32(inner[j].Value))
				}
			}
		case len(a.Value) < 4:
		case kind == channelsRx:
			n.rx += int(binary.NativeEndian.Uint32(a.Value))
		case kind == channelsTx:
			n.tx += int(binary.NativeEndian.Uint32(a.Value))
		case kind == channelsCombined:
			n.rx += int(binary.NativeEndian.Uint32(a.Value))
			n.tx += int(binary.NativeEndian.Uint32(a.Value))
		}
	}
	return index, n, index != 0 && n.rx > 0
}
