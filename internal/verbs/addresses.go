package verbs

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/provider"
)

// Local checks an address to bind to, and returns its endpoint: only the adapter's own address is
// valid.
func (a *Adapter) Local(addr netip.AddrPort) (provider.Endpoint, bool) {
	ip := addr.Addr().Unmap()
	if ip.WithZone("") != a.Addr || !a.inZone(ip) {
		return provider.Endpoint{}, false
	}
	return provider.EndpointFrom(netip.AddrPortFrom(ip, addr.Port())), true
}

// destination reports whether an address can be connected to: it must be the address of one host.
func destination(to netip.AddrPort) bool {
	ip := to.Addr().Unmap()
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip != limited && to.Port() != 0
}

// inZone reports whether an address has no zone, or the zone of the adapter's interface.
func (a *Adapter) inZone(ip netip.Addr) bool {
	if ip.Zone() == "" || a.Device == nil {
		return ip.Zone() == ""
	}
	i := a.Device.Info()
	return i.InZone(ip.Zone())
}

// AddrPort returns the inverse of provider.EndpointFrom. The zero endpoint is an invalid address.
func AddrPort(e provider.Endpoint) netip.AddrPort {
	if e == (provider.Endpoint{}) {
		return netip.AddrPort{}
	}
	return e.AddrPort()
}
