package icmp

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The filters are classic BPF, which every kernel has and needs no privilege of its own. On a busy host other programs' errors
// would use up what we look at: a filter costs the kernel some 20 ns for each of them, and us nothing. A read beyond the end of a
// message refuses it.

// test is a place of a message, how many bytes are compared there, and what they must be.
type test struct {
	at    uint32
	size  uint16 // unix.BPF_B, BPF_H or BPF_W
	value uint32
}

// filter4 passes ICMP "destination unreachable" that quote UDP from an address to a port. A raw IPv4 socket sees the IP header.
func filter4(local netip.Addr, port uint16) []unix.SockFilter {
	ip := local.As4()
	const quote = headerLen
	// X is the length of the IP header.
	return append([]unix.SockFilter{{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}}, program(unix.BPF_IND, []test{
		{0, unix.BPF_B, unreachable4},
		{quote, unix.BPF_B, ipv4VersionIHL},
		{quote + 9, unix.BPF_B, protoUDP},
		{quote + 12, unix.BPF_W, binary.BigEndian.Uint32(ip[:])},
		{quote + ipv4Len + 2, unix.BPF_H, uint32(port)},
	})...)
}

// filter6 is the same for ICMPv6, and passes "packet too big". A raw IPv6 socket sees what follows the IP header.
func filter6(local netip.Addr, port uint16) []unix.SockFilter {
	ip := local.As16()
	const quote = headerLen
	tests := []test{{quote + 6, unix.BPF_B, protoUDP}, {quote + ipv6Len + 2, unix.BPF_H, uint32(port)}}
	for i := range uint32(4) {
		tests = append(tests, test{quote + 8 + 4*i, unix.BPF_W, binary.BigEndian.Uint32(ip[4*i:])})
	}
	rest := program(unix.BPF_ABS, tests)
	// The types 1 and 2, "destination unreachable" and "packet too big", become 0; all others go to the last instruction.
	return append([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS},
		{Code: unix.BPF_ALU | unix.BPF_SUB | unix.BPF_K, K: unreachable6},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: tooBig6 - unreachable6},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(rest) - 1)},
	}, rest...)
}

// program passes what passes all tests.
func program(mode uint16, tests []test) (p []unix.SockFilter) {
	for i, t := range tests {
		refuse := uint8(2*(len(tests)-i) - 1) // to the last instruction
		p = append(p,
			unix.SockFilter{Code: unix.BPF_LD | t.size | mode, K: t.at},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: t.value, Jf: refuse},
		)
	}
	return append(p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: longest}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
}
