//go:build ignore

// SPDX-License-Identifier: Apache-2.0
/*
 * nd_steer redirects ND packets to the AF_XDP socket of their receive queue.
 *
 * A packet is for us if it is plain IPv4 or IPv6 UDP to nd_port at an address in
 * nd_local (PROTOCOL 2), untagged or with a priority tag. All other frames, and
 * frames that it cannot parse, pass to the kernel unchanged. So loading and
 * unloading the program takes no traffic from other programs. It drops only an ND
 * packet whose source is one of our own addresses, because no such frame can arrive
 * from the wire.
 *
 * The program reads only data..data_end. For a frame of several buffers that is the first
 * buffer, which always holds the headers.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "steer.h"

/* Network byte order, written by the loader before the map is frozen. */
const volatile __be16 nd_port = 0;

/*
 * If there is exactly one local address, it is also stored here and nd_single is
 * set. Comparing with it costs a few instructions, while two look-ups in nd_local
 * for each packet cost 46 ns more (97 and 51 in BPF_PROG_TEST_RUN). The
 * loader writes nd_only before it sets nd_single, and clears nd_single before a
 * second address enters nd_local.
 */
volatile struct nd_addr nd_only = {};
volatile __u32 nd_single = 0;

/* The loader sets max_entries to the number of receive queues. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} nd_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nd_addr);
	__type(value, __u8);
	__uint(max_entries, ND_MAX_LOCAL);
} nd_local SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, enum nd_verdict);
	__type(value, __u64);
	__uint(max_entries, ND_VERDICT_COUNT);
} nd_verdicts SEC(".maps");

/* The facts that the parser found about a frame that is for us so far. */
struct nd_packet {
	struct nd_addr src, dst;
	int vlan;
};

/* Parsing succeeded. No frame has this as its final verdict. */
#define ND_CONTINUE ND_VERDICT_COUNT

static __always_inline int nd_done(enum nd_verdict verdict, int action)
{
	__u64 *count = bpf_map_lookup_elem(&nd_verdicts, &verdict);

	if (count)
		(*count)++; /* per CPU, and XDP does not nest on one CPU */
	return action;
}

static __always_inline void nd_map_ipv4(struct nd_addr *to, __be32 addr)
{
	to->word[0] = 0;
	to->word[1] = 0;
	to->word[2] = bpf_htonl(0xffff);
	to->word[3] = addr;
}

/* Checks the UDP header at udp, the first byte after the IP header. */
static __always_inline enum nd_verdict nd_parse_udp(struct udphdr *udp, void *end)
{
	if ((void *)(udp + 1) > end)
		return ND_TRUNCATED;
	if (udp->dest != nd_port)
		return ND_OTHER_PORT;
	return ND_CONTINUE;
}

static __always_inline enum nd_verdict nd_parse_ipv4(struct iphdr *ip, void *end,
						     struct nd_packet *packet)
{
	if ((void *)(ip + 1) > end)
		return ND_TRUNCATED;
	if (ip->version != 4)
		return ND_NOT_IP;
	if (ip->ihl != ND_IP_HEADER_WORDS)
		return ND_IP_OPTIONS;
	if (ip->frag_off & bpf_htons(ND_IP_FRAGMENT_MASK))
		return ND_FRAGMENT;
	if (ip->protocol != IPPROTO_UDP)
		return ND_NOT_UDP;
	nd_map_ipv4(&packet->src, ip->saddr);
	nd_map_ipv4(&packet->dst, ip->daddr);
	return nd_parse_udp((void *)(ip + 1), end);
}

static __always_inline enum nd_verdict nd_parse_ipv6(struct ipv6hdr *ip, void *end,
						     struct nd_packet *packet)
{
	if ((void *)(ip + 1) > end)
		return ND_TRUNCATED;
	if (ip->version != 6)
		return ND_NOT_IP;
	if (ip->nexthdr == IPPROTO_FRAGMENT)
		return ND_FRAGMENT;
	if (ip->nexthdr != IPPROTO_UDP)
		return ND_NOT_UDP;
	__builtin_memcpy(&packet->src, &ip->saddr, sizeof(packet->src));
	__builtin_memcpy(&packet->dst, &ip->daddr, sizeof(packet->dst));
	/* IPv4 addresses are stored mapped: an IPv6 packet must not match them. */
	if (packet->dst.word[0] == 0 && packet->dst.word[1] == 0 &&
	    packet->dst.word[2] == bpf_htonl(0xffff))
		return ND_NOT_LOCAL;
	return nd_parse_udp((void *)(ip + 1), end);
}

static __always_inline enum nd_verdict nd_parse(struct ethhdr *eth, void *end,
						struct nd_packet *packet)
{
	void *next = eth + 1;
	__be16 proto, tci = 0;

	if (next > end)
		return ND_TRUNCATED;
	proto = eth->h_proto;
	if (proto == bpf_htons(ND_TPID_8021Q)) {
		struct nd_vlan *vlan = next;

		next = vlan + 1;
		if (next > end)
			return ND_TRUNCATED;
		packet->vlan = 1;
		tci = vlan->tci;
		proto = vlan->proto;
		if (proto == bpf_htons(ND_TPID_8021Q))
			return ND_VLAN_NESTED;
	}
	if (proto == bpf_htons(ND_TPID_8021AD))
		return ND_VLAN_NESTED;
	/* A VLAN is another network, with an interface of its own. */
	if (tci & bpf_htons(ND_VLAN_ID_MASK))
		return ND_VLAN_OTHER;
	if (proto == bpf_htons(ETH_P_IP))
		return nd_parse_ipv4(next, end, packet);
	if (proto == bpf_htons(ETH_P_IPV6))
		return nd_parse_ipv6(next, end, packet);
	return ND_NOT_IP;
}

static __always_inline int nd_is_only(const struct nd_addr *addr)
{
	return addr->word[3] == nd_only.word[3] && addr->word[2] == nd_only.word[2] &&
	       addr->word[1] == nd_only.word[1] && addr->word[0] == nd_only.word[0];
}

static __always_inline int nd_is_local(const struct nd_addr *addr)
{
	if (nd_single)
		return nd_is_only(addr);
	return bpf_map_lookup_elem(&nd_local, addr) != 0;
}

SEC("xdp.frags")
int nd_steer(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct nd_packet packet = {};
	enum nd_verdict verdict;

	verdict = nd_parse((void *)(long)ctx->data, end, &packet);
	if (verdict != ND_CONTINUE)
		return nd_done(verdict, XDP_PASS);
	if (!nd_is_local(&packet.dst))
		return nd_done(ND_NOT_LOCAL, XDP_PASS);
	if (nd_is_local(&packet.src))
		return nd_done(ND_SPOOFED, XDP_DROP);
	/*
	 * The helper looks up the queue itself, and returns XDP_PASS if the entry is
	 * empty (5.3+).
	 */
	if (bpf_redirect_map(&nd_sockets, ctx->rx_queue_index, XDP_PASS) != XDP_REDIRECT)
		return nd_done(ND_NO_SOCKET, XDP_PASS);
	return nd_done(packet.vlan ? ND_REDIRECTED_VLAN : ND_REDIRECTED, XDP_REDIRECT);
}

/* No helper here is GPL-only. */
char _license[] SEC("license") = "Apache-2.0";
