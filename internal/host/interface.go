package host

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/xdp"
)

// InterfaceWith looks up the interface that has the address. If several interfaces have the address, zone names the interface, by name or
// index.
func InterfaceWith(nl *netlink.Handle, addr netip.Addr, zone string) (xdp.NIC, error) {
	if nl == nil {
		return interfaceUnseen(addr, zone)
	}
	addrs, err := AllAddresses(nl)
	if err != nil {
		return xdp.NIC{}, err
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != addr.Unmap() && !sharesLoopback(a.IPNet, addr) {
			continue
		}
		link, err := nl.LinkByIndex(a.LinkIndex)
		if err != nil {
			return xdp.NIC{}, fmt.Errorf("look up the interface of %s: %w", addr, err)
		}
		if !InZone(zone, a.LinkIndex, namesOf(link.Attrs())) {
			continue
		}
		return xdp.Inspect(link.Attrs().Name)
	}
	return xdp.NIC{}, &AddressError{Address: addr.WithZone(zone)}
}

// InZone reports whether a zone, which may be empty, is the index of an interface or one of its names.
func InZone(zone string, index int, names string) bool {
	return zone == "" || zone == strconv.Itoa(index) || slices.Contains(strings.Split(names, nameSeparator), zone)
}

// sharesLoopback reports whether addr is in a loopback network, for example 127.0.0.1/8. The kernel answers to all addresses of this network.
func sharesLoopback(net *net.IPNet, addr netip.Addr) bool {
	return net != nil && net.IP.IsLoopback() && addr.Unmap().Is4() && net.Contains(addr.Unmap().AsSlice())
}

// AddressError means that no interface has the address.
type AddressError struct{ Address netip.Addr }

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("open %s: no interface of this machine (in this network namespace) has that address: "+
		"see ip address, and add it or use another one", e.Address)
}

// interfaceUnseen is InterfaceWith.
func interfaceUnseen(addr netip.Addr, zone string) (xdp.NIC, error) {
	all, err := udp.AssignedAddresses()
	if err != nil {
		return xdp.NIC{}, err
	}
	for _, a := range all {
		loops := addr.Is4() && addr.IsLoopback() && a.Address.IsLoopback()
		loops6 := addr == netip.IPv6Loopback() && a.Address.IsLoopback()
		if a.Address != addr && !loops && !loops6 {
			continue
		}
		nic, err := xdp.Inspect(a.Interface)
		if err != nil {
			return nic, err
		}
		if InZone(zone, nic.Index, nic.Name) {
			return nic, nil
		}
	}
	return xdp.NIC{}, fmt.Errorf("%w (without netlink an IPv6 address is found in /proc only: permit AF_NETLINK, or mount /proc)", &AddressError{Address: addr.WithZone(zone)})
}

// AssignedTo lists the addresses of an interface of the calling thread's network namespace, without netlink.
func AssignedTo(name string) (list []netip.Addr, err error) {
	all, err := udp.AssignedAddresses()
	for _, a := range all {
		if a.Interface == name {
			list = append(list, a.Address)
		}
	}
	return list, err
}

// InterfaceOf looks up the interface of the calling thread's network namespace that has an address.
func InterfaceOf(addr netip.Addr) (xdp.NIC, error) {
	nl, err := OpenNetlink()
	if err != nil {
		return xdp.NIC{}, err
	}
	if nl != nil {
		defer nl.Close()
	}
	return InterfaceWith(nl, addr, addr.Zone())
}

// InterfaceNamed returns the name of the interface of the calling thread's network namespace that has a name or an alternative name.
func InterfaceNamed(name string) (string, error) {
	i, err := xdp.InterfaceNamed(name)
	if err != nil {
		return "", err
	}
	return i.Name, nil
}

// nameSeparator separates names. No interface name contains it.
const nameSeparator = "/"

// namesOf returns all names of an interface.
func namesOf(a *netlink.LinkAttrs) string {
	return strings.Join(append([]string{a.Name}, a.AltNames...), nameSeparator)
}
