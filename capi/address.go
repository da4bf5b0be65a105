//go:build cgo

package main

// #include <netinet/in.h>
import "C"

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"unsafe"
)

// Sizes of struct sockaddr_in and struct sockaddr_in6.
const (
	sockaddr4 = C.sizeof_struct_sockaddr_in
	sockaddr6 = C.sizeof_struct_sockaddr_in6
)

// fromC returns the address in a socket address. It is invalid for nil and for other families than IPv4 and IPv6.
func fromC(sa *C.struct_sockaddr) netip.AddrPort {
	switch {
	case sa == nil:
		return netip.AddrPort{}
	case sa.sa_family == C.AF_INET:
		b := (*[sockaddr4]byte)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case sa.sa_family == C.AF_INET6:
		b := (*[sockaddr6]byte)(unsafe.Pointer(sa))
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		if index := binary.NativeEndian.Uint32(b[24:]); index != 0 {
			ip = ip.WithZone(zone(int(index)))
		}
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// zone returns the name of the interface with an index, or the index itself.
func zone(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}

// toC writes an address to a socket address.
func toC(sa *C.struct_sockaddr_storage, at netip.AddrPort) {
	*sa = C.struct_sockaddr_storage{}
	b := (*[sockaddr6]byte)(unsafe.Pointer(sa))
	binary.BigEndian.PutUint16(b[2:], at.Port())
	switch ip := at.Addr().Unmap(); {
	case ip.Is4():
		sa.ss_family = C.AF_INET
		four := ip.As4()
		copy(b[4:8], four[:])
	case ip.Is6():
		sa.ss_family = C.AF_INET6
		sixteen := ip.As16()
		copy(b[8:24], sixteen[:])
		if i, err := net.InterfaceByName(ip.Zone()); err == nil {
			binary.NativeEndian.PutUint32(b[24:], uint32(i.Index))
		}
	}
}
