package nd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// Two machines with one interface of each kind, for TestInterfaces.

// twoInterfaces is an interface of a kind at each of two machines, which a veth pair connects as well.
type twoInterfaces struct {
	pair *netlab.Pair
	ns   [2]*netlab.Namespace
	name [2]string
	addr [2]netip.Addr
}

// The addresses that the interfaces get.
var (
	ofANetwork  = [2]string{"10.96.0.1/24", "10.96.0.2/24"}
	ofLinkLocal = [2]string{"fe80::a/64", "fe80::b/64"}
	ofTheirOwn  = [2]string{"10.96.0.1/32", "10.96.0.2/32"}
)

// maker makes an interface in the calling thread's namespace, beside a veth or on top of it.
type maker func(t *testing.T, veth netlink.Link) netlink.Link

// network builds two machines and the interfaces between them. It skips the test if the kernel does not support this kind.
type network func(t *testing.T) *twoInterfaces

func newTwo(t *testing.T) *twoInterfaces {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	return &twoInterfaces{pair: pair, ns: [2]*netlab.Namespace{pair.A, pair.B}}
}

// onBoth makes an interface at both ends of a veth pair, with these addresses.
func onBoth(addrs [2]string, make maker) network {
	return func(t *testing.T) *twoInterfaces {
		two := newTwo(t)
		two.add(t, addrs, make)
		two.await(t)
		return two
	}
}

func (two *twoInterfaces) add(t *testing.T, addrs [2]string, make maker) {
	t.Helper()
	for i, ns := range two.ns {
		must(t, ns.Do(func() error {
			veth, err := netlink.LinkByName(netlab.DefaultName)
			must(t, err)
			two.setUp(t, i, make(t, veth), addrs[i])
			return nil
		}))
	}
}

// byRoutes makes interfaces that send no packets themselves: routes over the veth pair lead to their addresses.
func byRoutes(table int, make maker) network {
	return func(t *testing.T) *twoInterfaces {
		two := newTwo(t)
		two.add(t, ofTheirOwn, make)
		two.route(t, table)
		two.await(t)
		return two
	}
}

// route makes each end of the veth pair the next hop for the interface address at the other end.
func (two *twoInterfaces) route(t *testing.T, table int) {
	t.Helper()
	for i, ns := range []*netlab.Namespace{two.pair.A, two.pair.B} {
		must(t, ns.Do(func() error {
			to, err := netlink.ParseIPNet(ofTheirOwn[1-i])
			must(t, err)
			return netlink.RouteAdd(&netlink.Route{Dst: to, Gw: two.vethAddr(1 - i).AsSlice(), Table: table})
		}))
	}
}

// vethAddr returns the address of an end of the veth pair.
func (two *twoInterfaces) vethAddr(end int) netip.Addr {
	return [2]netip.Prefix{two.pair.AddrA, two.pair.AddrB}[end].Addr()
}

// bonds connects two bonds by two veth pairs.
func bonds(t *testing.T) *twoInterfaces {
	two := newTwo(t)
	must(t, two.pair.A.Do(func() error {
		leg := netlink.NewVeth(attrs("nd1", nil))
		leg.PeerName, leg.PeerNamespace = "nd1", netlink.NsFd(two.pair.B.FD())
		return netlink.LinkAdd(leg)
	}))
	two.add(t, ofANetwork, func(t *testing.T, veth netlink.Link) netlink.Link {
		b := netlink.NewLinkBond(attrs("bond0", nil))
		b.Mode, b.Miimon, b.Primary = netlink.BOND_MODE_ACTIVE_BACKUP, 10, veth.Attrs().Index // the same veth pair at both ends
		addLink(t, b)
		second, err := netlink.LinkByName("nd1")
		must(t, err)
		for _, leg := range []netlink.Link{veth, second} {
			must(t, errors.Join(netlink.LinkSetDown(leg), netlink.LinkSetMaster(leg, b), netlink.LinkSetUp(leg))) // a bond accepts only members that are down
		}
		return b
	})
	two.await(t)
	return two
}

func bridge(t *testing.T, veth netlink.Link) netlink.Link {
	b := addLink(t, &netlink.Bridge{LinkAttrs: attrs("br0", nil)})
	must(t, netlink.LinkSetMaster(veth, b))
	return b
}

// apart makes an interface in a namespace of its own, as containers have, on top of each end of a veth pair.
func apart(make func(a netlink.LinkAttrs) netlink.Link) network {
	return func(t *testing.T) *twoInterfaces {
		two := newTwo(t)
		for i, machine := range two.ns {
			own := netlabtest.Namespace(t)
			must(t, machine.Do(func() error {
				veth, err := netlink.LinkByName(netlab.DefaultName)
				must(t, err)
				a := attrs("upper0", veth)
				a.Namespace = netlink.NsFd(own.FD())
				addLink(t, make(a))
				return nil
			}))
			must(t, own.Do(func() error {
				l, err := netlink.LinkByName("upper0")
				must(t, err)
				two.setUp(t, i, l, ofANetwork[i])
				return nil
			}))
			two.ns[i] = own
		}
		two.route(t, 0) // the routes that ipvlan in L3 mode uses
		two.await(t)
		return two
	}
}

func macvlan(a netlink.LinkAttrs) netlink.Link {
	return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
}

// macvlanBesideParent makes a macvlan interface whose parent has an address in the same namespace. Both receive neighbour requests.
// Without this setting the parent answers requests for the macvlan's address.
func macvlanBesideParent(t *testing.T, veth netlink.Link) netlink.Link {
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0))
	return addLink(t, macvlan(attrs("macvlan0", veth)))
}

func ipvlan(mode netlink.IPVlanMode) func(netlink.LinkAttrs) netlink.Link {
	return func(a netlink.LinkAttrs) netlink.Link { return &netlink.IPVlan{LinkAttrs: a, Mode: mode} }
}

func vlan(t *testing.T, veth netlink.Link) netlink.Link {
	return addLink(t, &netlink.Vlan{LinkAttrs: attrs("vlan5", veth), VlanId: 5})
}

func vxlan(t *testing.T, veth netlink.Link) netlink.Link {
	v := &netlink.Vxlan{LinkAttrs: attrs("vxlan0", nil), VxlanId: 5, VtepDevIndex: veth.Attrs().Index, Port: 4789, Learning: true}
	v.Group = net.IPv4(10, 99, 0, 255) // reaches the other side by broadcast
	return addLink(t, v)
}

const vrfTable = 10

// vrfMember returns the veth after it was made a member of a VRF.
func vrfMember(t *testing.T, veth netlink.Link) netlink.Link {
	vrf(t, veth)
	return veth
}

// vrf makes a VRF with the veth as its member.
func vrf(t *testing.T, veth netlink.Link) netlink.Link {
	v := addLink(t, &netlink.Vrf{LinkAttrs: attrs("vrf0", nil), Table: vrfTable})
	must(t, errors.Join(netlink.LinkSetUp(v), netlink.LinkSetMaster(veth, v)))
	return v
}

func dummy(t *testing.T, _ netlink.Link) netlink.Link {
	return addLink(t, &netlink.Dummy{LinkAttrs: attrs("dummy0", nil)})
}

func lo(t *testing.T, _ netlink.Link) netlink.Link {
	l, err := netlink.LinkByName("lo")
	must(t, err)
	return l
}

// tuns connects a tap or tun interface at each side. Goroutines copy packets between their descriptors, as virtual machines and
// tunnels do.
func tuns(mode netlink.TuntapMode) network {
	return func(t *testing.T) *twoInterfaces {
		two := newTwo(t)
		var ends [2]*os.File
		var running sync.WaitGroup
		t.Cleanup(func() {
			for _, f := range ends {
				if f != nil {
					_ = f.Close() // ends the reading goroutine
				}
			}
			running.Wait()
		})
		for i, ns := range two.ns {
			must(t, ns.Do(func() error {
				l := &netlink.Tuntap{LinkAttrs: attrs("tun0", nil), Mode: mode, Flags: unix.IFF_NO_PI, Queues: 1, NonPersist: true}
				if err := netlink.LinkAdd(l); errors.Is(err, unix.ENOENT) {
					t.Skip("this kernel has no tap and tun interfaces (/dev/net/tun)")
				} else if err != nil {
					return err
				}
				ends[i] = l.Fds[0]
				two.setUp(t, i, l, ofANetwork[i])
				return nil
			}))
		}
		for i := range ends {
			running.Go(func() { copyPackets(ends[1-i], ends[i]) })
		}
		two.await(t)
		return two
	}
}

// copyPackets copies packets until one of the two files is closed.
func copyPackets(to, from *os.File) {
	packet := make([]byte, 1<<16)
	for {
		n, err := from.Read(packet)
		if err != nil {
			return
		}
		if _, err = to.Write(packet[:n]); errors.Is(err, os.ErrClosed) {
			return
		} // on other errors the packet is lost, as on any network
	}
}

// attrs returns the attributes of an interface on top of another one, or of none.
func attrs(name string, below netlink.Link) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	if below != nil {
		a.ParentIndex = below.Attrs().Index
	}
	return a
}

// addLink adds an interface to the calling thread's namespace. It skips the test if the kernel does not support this kind.
func addLink(t *testing.T, l netlink.Link) netlink.Link {
	t.Helper()
	switch err := netlink.LinkAdd(l); {
	case errors.Is(err, unix.EOPNOTSUPP):
		t.Skipf("this kernel has no interfaces of the kind %s", l.Type())
	case err != nil:
		t.Fatalf("add an interface of the kind %s: %v", l.Type(), err)
	}
	return l
}

// setUp assigns the address to an interface and sets it up, in the calling thread's namespace.
func (two *twoInterfaces) setUp(t *testing.T, end int, l netlink.Link, prefix string) {
	t.Helper()
	a, err := netlink.ParseAddr(prefix)
	must(t, err)
	a.Flags = unix.IFA_F_NODAD
	must(t, errors.Join(netlink.LinkSetUp(l), netlink.AddrAdd(l, a)))
	two.name[end] = l.Attrs().Name
	two.addr[end] = netip.MustParsePrefix(prefix).Addr()
	if two.addr[end].IsLinkLocalUnicast() {
		two.addr[end] = two.addr[end].WithZone(two.name[end])
	}
}

// await waits until both interfaces carry packets to their addresses.
func (two *twoInterfaces) await(t *testing.T) {
	t.Helper()
	for i, ns := range two.ns {
		must(t, ns.Do(func() error {
			eventually(t, fmt.Sprintf("%s carries packets to %s", two.name[i], two.addr[i]), func() bool {
				l, err := netlink.LinkByName(two.name[i])
				must(t, err)
				at, err := netlink.RouteGetWithOptions(two.addr[i].AsSlice(), &netlink.RouteGetOptions{OifIndex: l.Attrs().Index})
				const working = unix.IFF_UP | unix.IFF_LOWER_UP
				return l.Attrs().RawFlags&working == working && err == nil && at[0].Type == unix.RTN_LOCAL
			})
			return nil
		}))
	}
}
