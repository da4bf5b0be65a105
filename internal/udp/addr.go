package udp

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Addr is a destination in the kernel's format: struct sockaddr_in6, or struct sockaddr_in at its beginning.
type Addr struct {
	raw    unix.RawSockaddrInet6
	n      uint8
	direct bool // see Direct
	alone  pause
}

// pause suspends GSO batches to a destination after the kernel refused one.
type pause struct {
	left   uint32 // datagrams that still leave one by one
	newest uint32 // initial value of left
}

// The next GSO batch follows after this many datagrams. The number doubles if the batch is refused again. A refused batch costs
// sending its datagrams twice.
const (
	shortestPause = 1 << 10
	longestPause  = 1 << 20
)

// begin starts or lengthens the suspension.
func (p *pause) begin() {
	p.newest = min(max(2*p.newest, shortestPause), longestPause)
	p.left = p.newest
}

// over counts a datagram and reports whether it may join a GSO batch.
func (p *pause) over() bool {
	if p.left == 0 {
		return true
	}
	p.left--
	return false
}

// Direct makes datagrams to this address leave by the sender's interface, regardless of routes. It must not be used for addresses
// of this machine, which other interfaces may have.
func (a *Addr) Direct() { a.direct = true }

// AddrOf converts an address. scope is the interface index, which link-local addresses need.
func AddrOf(to netip.AddrPort, scope int) Addr {
	var a Addr
	a.raw.Port = bigEndian16(to.Port())
	if ip := to.Addr().Unmap(); ip.Is4() {
		four := ip.As4()
		a.raw.Family, a.n = unix.AF_INET, unix.SizeofSockaddrInet4
		a.raw.Flowinfo = binary.NativeEndian.Uint32(four[:]) // offset of the address in sockaddr_in
		return a
	}
	a.raw.Family, a.n = unix.AF_INET6, unix.SizeofSockaddrInet6
	a.raw.Addr = to.Addr().As16()
	a.raw.Scope_id = scopeOf(to.Addr(), scope)
	return a
}

func scopeOf(ip netip.Addr, index int) uint32 {
	if ip.IsLinkLocalUnicast() {
		return uint32(index)
	}
	return 0
}

// bigEndian16 converts v between host and network byte order.
func bigEndian16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// parse returns the IP address, IPv4 as a mapped IPv6 address, and the port.
func parse(raw *unix.RawSockaddrInet6) (ip [16]byte, port uint16) {
	if raw.Family == unix.AF_INET6 {
		return raw.Addr, bigEndian16(raw.Port)
	}
	ip[10], ip[11] = 0xff, 0xff
	binary.NativeEndian.PutUint32(ip[12:], raw.Flowinfo)
	return ip, bigEndian16(raw.Port)
}

// sockaddr returns an address in the form that package unix needs for bind.
func sockaddr(at netip.AddrPort, scope int) unix.Sockaddr {
	if ip := at.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16(), ZoneId: scopeOf(at.Addr(), scope)}
}

// IP returns the address without its port, and without a zone.
func (a *Addr) IP() netip.Addr {
	if a.raw.Family == unix.AF_INET {
		return netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, a.raw.Flowinfo)))
	}
	return netip.AddrFrom16(a.raw.Addr)
}
