package ndnet

import (
	"net"
	"net/netip"
)

// tcpAddr is an ND address in the type that programs of package net look for: they ask *net.TCPAddr for the IP address of a peer. A link-local
// address has the adapter's interface as its zone, so that it can be dialed.
func (n *Network) tcpAddr(a netip.AddrPort) *net.TCPAddr {
	at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	if a.Addr().Is6() && a.Addr().IsLinkLocalUnicast() {
		at.Zone = n.adapter.Datapath().Interface
	}
	return at
}
