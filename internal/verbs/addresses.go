package verbs

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/provider"
)

// Local checks an address to bind to, and says which endpoint it is: only the adapter's own will do.
func (a *Adapter) Local(addr netip.AddrPort) (provider.Endpoint, bool) {
	ip := addr.Addr().Unmap()
	if ip.WithZone("") != a.Addr || !a.inZone(ip) {
		return provider.Endpoint{}, false
	}
	return provider.EndpointFrom(netip.AddrPortFrom(ip, addr.Port())), true
}

// destination says whether connections can be made to an address at all: one that is of one host.
func destination(to netip.AddrPort) bool {
	ip := to.Addr().Unmap()
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip != limited && to.Port() != 0
}

// inZone says whether an address is in the zone of the adapter's interface, or names none.
func (a *Adapter) inZone(ip netip.Addr) bool {
	if ip.Zone() == "" || a.Device == nil {
		return ip.Zone() == ""
	}
	i := a.Device.Info()
	return i.InZone(ip.Zone())
}

// AddrPort is the inverse of provider.EndpointFrom; the zero endpoint is no address.
func AddrPort(e provider.Endpoint) netip.AddrPort {
	if e == (provider.Endpoint{}) {
		return netip.AddrPort{}
	}
	return e.AddrPort()
}
