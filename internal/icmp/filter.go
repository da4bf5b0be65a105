package icmp

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/wire"
)

// The filters are classic BPF, which every kernel supports without further privileges. Without a filter, errors of other programs
// on a busy host would use up our limit. A filter costs the kernel some 20 ns per error. A read beyond the end of a message rejects
// it.

// test compares some bytes at an offset of a message with a value.
type test struct {
	at    uint32
	size  uint16 // unix.BPF_B, BPF_H or BPF_W
	value uint32
}

// filter4 passes ICMP "destination unreachable" that quote UDP from an address to a port, or an ND packet to a port that an adapter
// chose. A raw IPv4 socket receives the IP header, too.
func filter4(local netip.Addr, port uint16) []unix.SockFilter {
	ip := local.As4()
	const quote = headerLen
	// X is the length of the IP header.
	return append([]unix.SockFilter{{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}}, program(unix.BPF_IND, []test{
		{0, unix.BPF_B, unreachable4},
		{quote, unix.BPF_B, ipv4VersionIHL},
		{quote + 9, unix.BPF_B, protoUDP},
		{quote + 12, unix.BPF_W, binary.BigEndian.Uint32(ip[:])},
	}, quote+ipv4Len, port)...)
}

// filter6 does the same for ICMPv6, and also passes "packet too big". A raw IPv6 socket does not receive the IP header.
func filter6(local netip.Addr, port uint16) []unix.SockFilter {
	ip := local.As16()
	const quote = headerLen
	tests := []test{{quote + 6, unix.BPF_B, protoUDP}}
	for i := range uint32(4) {
		tests = append(tests, test{quote + 8 + 4*i, unix.BPF_W, binary.BigEndian.Uint32(ip[4*i:])})
	}
	rest := program(unix.BPF_ABS, tests, quote+ipv6Len, port)
	// Types 1 and 2, "destination unreachable" and "packet too big", become 0. All others jump to the last instruction.
	return append([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS},
		{Code: unix.BPF_ALU | unix.BPF_SUB | unix.BPF_K, K: unreachable6},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: tooBig6 - unreachable6},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(rest) - 1)},
	}, rest...)
}

// program passes packets that pass all tests and have, at udp, a UDP header to a port, or an ND packet to a port that an adapter
// chose.
func program(mode uint16, tests []test, udp uint32, port uint16) (p []unix.SockFilter) {
	const passing = 7 // instructions behind the tests, except the rejecting one
	load := func(size uint16, at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | size | mode, K: at}
	}
	jump := func(how uint16, value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	for i, t := range tests {
		refuse := uint8(2*(len(tests)-i-1) + passing)
		p = append(p, load(t.size, t.at), jump(unix.BPF_JEQ, t.value, 0, refuse))
	}
	return append(p,
		load(unix.BPF_H, udp+2),
		jump(unix.BPF_JEQ, uint32(port), 4, 0),
		jump(unix.BPF_JGE, wire.FirstSourcePort, 0, 4),
		load(unix.BPF_B, udp+udpLen),
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		jump(unix.BPF_JEQ, wire.Version<<4, 0, 1),
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: longest},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K},
	)
}
