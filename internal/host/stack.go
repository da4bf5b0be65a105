package host

import (
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// Stack describes the interfaces above and below an interface.
type Stack struct {
	Name     string
	Driver   string   // as in ethtool -i; empty if the driver does not tell
	Kind     string   // kind of a virtual interface as in ip -d link: veth, bond, vrf; "device" for hardware
	Lowers   []string // names of the interfaces whose master it is, sorted; their packets become its packets
	Layer3   bool     // it sends by the routes of the lower interface, whatever the Ethernet header says
	Loopback bool     // it is a loopback interface
}

// stackOf describes the interface with an index in a list of all interfaces.
func stackOf(list []netlink.Link, index int, driver string) Stack {
	s := Stack{Driver: driver}
	for _, l := range list {
		switch a := l.Attrs(); {
		case a.Index == index:
			s.Name, s.Kind, s.Loopback = a.Name, l.Type(), a.RawFlags&unix.IFF_LOOPBACK != 0
			if v, ok := l.(*netlink.IPVlan); ok {
				s.Layer3 = v.Mode != netlink.IPVLAN_MODE_L2
			}
		case a.MasterIndex == index:
			s.Lowers = append(s.Lowers, a.Name)
		}
	}
	slices.Sort(s.Lowers)
	return s
}

// InspectStack describes an interface. Without a handle it uses only the facts of the interface itself.
func InspectStack(from *netlink.Handle, nic *xdp.NIC) (Stack, error) {
	if from == nil {
		return Stack{Name: nic.Name, Driver: nic.Driver, Loopback: nic.Loopback}, nil
	}
	list, err := Links(from)
	if err != nil {
		return Stack{}, err
	}
	return stackOf(list, nic.Index, nic.Driver), nil
}

// silentKinds are kinds of virtual interfaces with addresses whose packets arrive on other interfaces. XDP programs on silent interfaces
// see no packets.
var silentKinds = []string{"dummy", "vrf"}

// Silent reports whether packets to an address of the interface arrive on other interfaces of the machine.
func (s *Stack) Silent() bool { return slices.Contains(silentKinds, s.Kind) }

// Elsewhere reports whether packets of other machines to an address of the interface arrive on other interfaces, while answers leave by
// the interfaces of routes.
func (s *Stack) Elsewhere() bool { return s.Loopback || s.Silent() }

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

// Beneath returns the reason why native mode loses packets, or an empty string.
func (s *Stack) Beneath() string {
	if len(s.Lowers) > 0 {
		return "its packets arrive on " + strings.Join(s.Lowers, ", ")
	}
	return stacked[s.Driver]
}
