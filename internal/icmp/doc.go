// Package icmp receives ICMP errors about our UDP packets that were not delivered: ICMP and ICMPv6 "destination unreachable" (RFC
// 792, RFC 4443). It uses a raw socket. The filter of the socket only passes errors that quote packets from one address to one UDP
// port, or ND packets to ports that adapters choose. The caller decides whether to believe an error, because any host can send one.
package icmp
