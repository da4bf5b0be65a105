package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// stack says where an interface stands among others.
type stack struct {
	name   string
	driver string   // as ethtool -i tells it; empty when the driver does not
	kind   string   // of a virtual interface, as ip -d link shows it: veth, bond, vrf; "device" for hardware
	lowers []string // names of the interfaces whose master it is, sorted: their packets become its packets
	layer3 bool     // it sends by the routes of the interface beneath, whatever the Ethernet header says
	lo     bool     // it is a loopback interface
}

// stackOf finds the place of the interface with an index in a list of all interfaces.
func stackOf(list []netlink.Link, index int, driver string) stack {
	s := stack{driver: driver}
	for _, l := range list {
		switch a := l.Attrs(); {
		case a.Index == index:
			s.name, s.kind, s.lo = a.Name, l.Type(), a.RawFlags&unix.IFF_LOOPBACK != 0
			if v, ok := l.(*netlink.IPVlan); ok {
				s.layer3 = v.Mode != netlink.IPVLAN_MODE_L2
			}
		case a.MasterIndex == index:
			s.lowers = append(s.lowers, a.Name)
		}
	}
	slices.Sort(s.lowers)
	return s
}

// inspectStack finds the place of an interface. Without a handle it knows what the interface itself says.
func inspectStack(from *netlink.Handle, nic *xdp.NIC) (stack, error) {
	if from == nil {
		return stack{name: nic.Name, driver: nic.Driver, lo: nic.Loopback}, nil
	}
	list, err := Links(from)
	if err != nil {
		return stack{}, err
	}
	return stackOf(list, nic.Index, nic.Driver), nil
}

// silentKinds are virtual interfaces that have addresses, but whose packets arrive on other interfaces: no XDP program of theirs
// sees them.
var silentKinds = []string{"dummy", "vrf"}

// elsewhere says whether packets of other machines to an address of the interface arrive on other interfaces, and answers leave by the
// interfaces of routes.
func (s *stack) elsewhere() bool { return s.lo || slices.Contains(silentKinds, s.kind) }

// stacked are the drivers of interfaces that receive their packets from other interfaces, which may change during use. In native mode the
// kernel runs the program of the upper interface in the driver of the lower one, and the packet belongs to a queue of the lower one. The
// kernel drops packets redirected to a socket of another interface (xsk_rcv_check), without a counter that a socket could read. In generic
// mode the program runs after the packet has reached the upper interface.
var stacked = map[string]string{
	"bonding":      "the packets of a bond arrive on its members",
	"team":         "the packets of a team arrive on its ports",
	"net_failover": "the packets of a failover interface arrive on the interfaces beneath",
	"hv_netvsc":    "a virtual function may take the packets of this driver at any time",
}

// beneath says why native mode loses packets, empty when it does not.
func (s *stack) beneath() string {
	if len(s.lowers) > 0 {
		return "its packets arrive on " + strings.Join(s.lowers, ", ")
	}
	return stacked[s.driver]
}

// notSeenError says that the packets of an interface do not arrive on it.
type notSeenError struct {
	stack *stack
	addr  netip.Addr
}

func (e *notSeenError) Error() string {
	return fmt.Sprintf("open %s on interface %s: packets to it arrive on other interfaces, where neither AF_XDP nor a ring of a %s interface "+
		"gets them: choose an address of the interface that they arrive on, or the udp datapath", e.addr, e.stack.name, e.stack.kind)
}

// layer3Error says that an ipvlan interface does not send frames as they are. In modes L3 and L3S it routes packets by the protocol that
// the kernel recorded (ipvlan_process_outbound). It drops packets of an AF_XDP socket, because they have none.
type layer3Error struct {
	name string
	addr netip.Addr
}

func (e *layer3Error) Error() string {
	return fmt.Sprintf("open %s on interface %s: an ipvlan interface in L3 mode drops what an AF_XDP socket sends: choose the ring datapath or udp, or "+
		"an ipvlan interface in L2 mode", e.addr, e.name)
}
