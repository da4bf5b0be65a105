// Package icmp reads what routers and hosts say about UDP packets of ours that did not reach anybody: ICMP and ICMPv6
// "destination unreachable" (RFC 792, RFC 4443), from a raw socket whose filter lets through only what quotes packets from one
// address to one UDP port, or ND packets to a port that adapters choose for themselves. Whether such a quote is believed is the caller's to decide: anyone can send one.
package icmp
