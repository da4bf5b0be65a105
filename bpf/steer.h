/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ND_STEER_H
#define ND_STEER_H

/*
 * nd_verdict is the decision of the program about one frame. It is the key of
 * nd_verdicts. bpf2go turns it into Go constants, so there is only this list. Append
 * new verdicts before ND_VERDICT_COUNT and name them in verdict.go.
 */
enum nd_verdict {
	ND_REDIRECTED = 0,  /* to the socket of its queue, untagged */
	ND_REDIRECTED_VLAN, /* to the socket of its queue, with a priority tag (VLAN id 0) */
	ND_NO_SOCKET,       /* ours, but its queue has no socket: passed */
	ND_SPOOFED,         /* ours, but from one of our own addresses: dropped */
	ND_NOT_LOCAL,       /* ND port, destination is not ours: passed */
	ND_OTHER_PORT,      /* UDP to another port: passed */
	ND_NOT_UDP,         /* IP, but not UDP (or UDP behind an extension): passed */
	ND_FRAGMENT,        /* a fragment of an IP datagram: passed */
	ND_IP_OPTIONS,      /* IPv4 with a header length other than 5 words: passed */
	ND_NOT_IP,          /* neither IPv4 nor IPv6: passed */
	ND_VLAN_NESTED,     /* a second tag, or an 802.1ad tag: passed */
	ND_TRUNCATED,       /* ends inside a header: passed */
	ND_VLAN_OTHER,      /* tagged with the id of a VLAN: passed */
	ND_VERDICT_COUNT,
};

/* nd_addr is an address in network order, IPv4 as ::ffff:a.b.c.d. */
struct nd_addr {
	__u32 word[4];
};

/*
 * Tag protocol identifiers, IEEE 802.1Q-2018 9.5. The uapi headers have them only as
 * EtherTypes of another size.
 */
#define ND_TPID_8021Q 0x8100
#define ND_TPID_8021AD 0x88a8

/*
 * The id in the control information of a tag, IEEE 802.1Q-2018 9.6; 0 is a priority
 * tag.
 */
#define ND_VLAN_ID_MASK 0x0fff

/* More-fragments bit and fragment offset, RFC 791 3.1. DF is not a fragment. */
#define ND_IP_FRAGMENT_MASK 0x3fff

#define ND_IP_HEADER_WORDS 5
#define ND_MAX_LOCAL 1024

/* The tag that follows the source address. uapi has no struct for it. */
struct nd_vlan {
	__be16 tci;
	__be16 proto;
};

#endif
