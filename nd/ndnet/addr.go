package ndnet

import (
	"net"
	"net/netip"
)

// tcpAddr returns an ND address as *net.TCPAddr, which programs of package net look for to get the IP address of a peer. A link-local
// address has the adapter's interface as its zone, so that it can be dialed.
func (n *Network) tcpAddr(a netip.AddrPort) *net.TCPAddr {
	at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	if a.Addr().Is6() && a.Addr().IsLinkLocalUnicast() {
		at.Zone = n.adapter.Datapath().Interface
	}
	return at
}
