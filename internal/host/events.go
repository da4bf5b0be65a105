package host

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// EventKind is the kind of an event from the kernel.
type EventKind uint8

const (
	EventLink            EventKind = iota // an interface was added or changed
	EventLinkGone                         // an interface was removed
	EventAddress                          // an interface has an address
	EventAddressGone                      // an address was removed
	EventNeighbour                        // a neighbour has a usable link-layer address
	EventNeighbourGone                    // the kernel forgot a neighbour
	EventNeighbourSilent                  // a neighbour does not answer
	EventRoutes                           // routes, rules or next hops changed
	EventChannels                         // the number of queues of an interface
	EventOverflow                         // events were lost, because they were not read in time
	EventBroken                           // no more events will come
)

// Event is one event from the kernel.
type Event struct {
	Kind     EventKind
	Index    int // of the interface
	Link     LinkFacts
	Prefix   netip.Prefix
	Peer     netip.Addr // peer address of prefix, as in Assigned.Peer
	Hop      netip.Addr
	MAC      [6]byte
	Channels Channels
	Err      error // of EventBroken
}

// parseRoute parses a message of route netlink. ok is false for a message that does not concern an interface's state.
func parseRoute(m *syscall.NetlinkMessage) (e Event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return parseAddress(m)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return parseNeighbour(m)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return Event{Kind: EventRoutes}, true
	}
	return e, false
}

func parseLink(m *syscall.NetlinkMessage) (e Event, ok bool) {
	// A bridge reports its ports with messages of its own family. Removal of a port is not removal of the interface.
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return e, false
	}
	l, err := netlink.LinkDeserialize(&unix.NlMsghdr{Type: m.Header.Type}, m.Data)
	if err != nil {
		return e, false
	}
	a := l.Attrs()
	if m.Header.Type == unix.RTM_DELLINK {
		return Event{Kind: EventLinkGone, Index: a.Index}, true
	}
	// Some messages of wireless drivers lack most attributes.
	return Event{Kind: EventLink, Index: a.Index, Link: FactsOf(a)}, a.MTU > 0
}

// working are the flags of an interface that is up and has a carrier.
const working = unix.IFF_UP | unix.IFF_LOWER_UP

func FactsOf(a *netlink.LinkAttrs) LinkFacts {
	f := LinkFacts{Name: a.Name, Names: namesOf(a), Up: a.RawFlags&working == working, MTU: a.MTU, Master: a.MasterIndex}
	copy(f.MAC[:], a.HardwareAddr)
	return f
}

func parseAddress(m *syscall.NetlinkMessage) (e Event, ok bool) {
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
		case unix.IFA_ADDRESS: // on a point-to-point link: the peer's address, if it has one
			peer, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if !ip.IsValid() { // IPv6 addresses without a peer have only this attribute
		ip = peer
	}
	if peer == ip {
		peer = netip.Addr{}
	}
	e = Event{Kind: EventAddress, Index: index, Prefix: netip.PrefixFrom(ip, bits), Peer: peer}
	if m.Header.Type == unix.RTM_DELADDR {
		e.Kind = EventAddressGone
	}
	return e, e.Prefix.IsValid()
}

func parseNeighbour(m *syscall.NetlinkMessage) (e Event, ok bool) {
	index, at, n, ok := ParseNeighbour(m.Data)
	e = Event{Index: index, Hop: at}
	switch {
	case m.Header.Type == unix.RTM_DELNEIGH:
		e.Kind = EventNeighbourGone
	case n.Known:
		e.Kind, e.MAC = EventNeighbour, n.MAC
	case n.State&unix.NUD_FAILED != 0:
		e.Kind = EventNeighbourSilent
	default:
		return e, false // being asked for
	}
	return e, ok
}

// These are numbers of linux/ethtool_netlink.h.
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

// AskChannels asks for the number of queues of an interface. It returns nil if the driver does not tell.
func AskChannels(c *genetlink.Conn, index int) *Channels {
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

// parseEthtool parses a notification of ethtool netlink.
func parseEthtool(m *syscall.NetlinkMessage) (e Event, ok bool) {
	if len(m.Data) < genetlink.HeaderLen || m.Data[0] != ethtoolChannelsNote {
		return e, false
	}
	e.Kind = EventChannels
	e.Index, e.Channels, ok = channelsOf(m.Data[genetlink.HeaderLen:])
	return e, ok
}

// channelsOf reads the attributes of an answer or a notification. Combined queues count as receive queues and as transmit queues.
func channelsOf(attributes []byte) (index int, n Channels, ok bool) {
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
			n.Rx += int(binary.NativeEndian.Uint32(a.Value))
		case kind == channelsTx:
			n.Tx += int(binary.NativeEndian.Uint32(a.Value))
		case kind == channelsCombined:
			n.Rx += int(binary.NativeEndian.Uint32(a.Value))
			n.Tx += int(binary.NativeEndian.Uint32(a.Value))
		}
	}
	return index, n, index != 0 && n.Rx > 0
}

// LinkFacts describes an interface.
type LinkFacts struct {
	Name   string
	Names  string // the name and the alternative names, separated by nameSeparator
	Up     bool
	MTU    int
	MAC    [6]byte
	Master int // index, 0 for none
}

// Assigned is an address of an interface. An interface may have the same address several times, with different prefix lengths or peers.
type Assigned struct {
	Prefix netip.Prefix // the address, with its prefix length
	Peer   netip.Addr   // peer address on a point-to-point link, if it has one; else zero
}

// Channels is the number of queues that an interface uses.
type Channels struct{ Rx, Tx int }
