//go:build ignore

// SPDX-License-Identifier: Apache-2.0
/*
 * nd_ring copies ND packets for one UDP socket into a ring that a process reads
 * without a system call. It runs at the ingress of traffic control (tcx). There the
 * kernel has parsed nothing yet, and need not copy the packet for the program.
 *
 * A packet is for us if it is plain IPv4 or IPv6 UDP to nd_to and nd_to_port. It is
 * copied if four conditions hold: the process polls the ring or sleeps there, the
 * packet is no merged run of datagrams, its lengths agree, and it fits. All other
 * packets pass to the kernel unchanged, and the socket receives those for us. So
 * loading and unloading the program loses no packets. Packets to the bulk port of the
 * same address are only counted, so that the process polls a counter and not a socket.
 *
 * A process without privileges may read a ring. Such a process can release or share
 * its port while the ring exists. For its ring nd_checks is set, and a packet is for
 * us only if the kernel would give it to the socket in nd_owners.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "steer.h"
#include "ring.h"

/* The loader writes this before the map is frozen. The port is in network order. */
const volatile struct nd_addr nd_to = {};
const volatile __be16 nd_to_port = 0;
const volatile __u8 nd_checks = 0; /* whether nd_owners counts */
const volatile __u8 nd_loopback = 0; /* whether the interface is a loopback interface */

/* Holds one socket. The entry belongs to the socket, and is removed with it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u8);
} nd_owners SEC(".maps");

/* The loader sets max_entries to the size of the ring in bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} nd_packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nd_page);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} nd_pages SEC(".maps");

/* The number of packets that were put into the ring. */
__u64 nd_taken = 0;

/* The facts about a packet that is for us. */
struct nd_found {
	struct nd_addr src, dst;
	__u8 mac[ETH_ALEN];
	__be16 sport, dport;
	__u32 offset; /* of the payload */
	__u32 len;    /* of the payload; 0 when there is none, or when the lengths disagree */
	__u8 marked;
};

static __always_inline int nd_equal(const struct nd_addr *a, const volatile struct nd_addr *b)
{
	return a->word[3] == b->word[3] && a->word[2] == b->word[2] && a->word[1] == b->word[1] &&
	       a->word[0] == b->word[0];
}

/*
 * IPv4 addresses are stored mapped, and no address of an IPv6 packet may be a mapped
 * one.
 */
static __always_inline int nd_mapped(const struct nd_addr *a)
{
	return a->word[0] == 0 && a->word[1] == 0 && a->word[2] == bpf_htonl(0xffff);
}

/*
 * Reads the UDP header at udp, the first byte after an IP header that announces rest
 * further bytes.
 */
static __always_inline int nd_udp(struct udphdr *udp, void *end, __u32 offset, __u32 rest, struct nd_found *found)
{
	__u32 len;

	if ((void *)(udp + 1) > end)
		return 0;
	found->sport = udp->source;
	found->dport = udp->dest;
	found->offset = offset + sizeof(*udp);
	/*
	 * If the UDP length is less than the IP length, the kernel truncates the
	 * payload. If it is more, the kernel drops the packet; here the remaining
	 * bytes may be padding of the link layer.
	 */
	len = bpf_ntohs(udp->len);
	found->len = len == rest && len > sizeof(*udp) ? len - sizeof(*udp) : 0;
	return 1;
}

static __always_inline int nd_ipv4(struct iphdr *ip, void *end, struct nd_found *found)
{
	if ((void *)(ip + 1) > end)
		return 0;
	if (ip->version != 4 || ip->ihl != ND_IP_HEADER_WORDS || ip->protocol != IPPROTO_UDP ||
	    ip->frag_off & bpf_htons(ND_IP_FRAGMENT_MASK))
		return 0;
	found->src.word[2] = found->dst.word[2] = bpf_htonl(0xffff);
	found->src.word[3] = ip->saddr;
	found->dst.word[3] = ip->daddr;
	found->marked = (ip->tos & ND_ECN_MASK) == ND_ECN_CE;
	return nd_udp((void *)(ip + 1), end, sizeof(*ip), bpf_ntohs(ip->tot_len) - (__u32)sizeof(*ip), found);
}

static __always_inline int nd_ipv6(struct ipv6hdr *ip, void *end, struct nd_found *found)
{
	if ((void *)(ip + 1) > end)
		return 0;
	if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
		return 0;
	__builtin_memcpy(&found->src, &ip->saddr, sizeof(found->src));
	__builtin_memcpy(&found->dst, &ip->daddr, sizeof(found->dst));
	if (nd_mapped(&found->src) || nd_mapped(&found->dst))
		return 0;
	/*
	 * The low two bits of the traffic class are in the upper half of the second
	 * byte.
	 */
	found->marked = (ip->flow_lbl[0] >> 4 & ND_ECN_MASK) == ND_ECN_CE;
	return nd_udp((void *)(ip + 1), end, sizeof(*ip), bpf_ntohs(ip->payload_len), found);
}

/* Reads the IP header at ip. The protocol is as in the link-layer header. */
static __always_inline int nd_ip(void *ip, void *end, __be16 protocol, struct nd_found *found)
{
	if (protocol == bpf_htons(ETH_P_IP))
		return nd_ipv4(ip, end, found);
	return protocol == bpf_htons(ETH_P_IPV6) && nd_ipv6(ip, end, found);
}

/* Reports whether the packet is UDP to our address, and finds its parts. */
static __always_inline int nd_find(struct __sk_buff *skb, struct nd_found *found)
{
	struct ethhdr *eth = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	__be16 protocol = skb->protocol;
	int whole;

	if ((void *)(eth + 1) > end)
		return 0;
	/*
	 * The kernel drops packets that an interface receives only in promiscuous
	 * mode.
	 */
	if (skb->pkt_type == PACKET_OTHERHOST)
		return 0;
	/* A VLAN is another network. The kernel has removed the tag. */
	if (skb->vlan_present && skb->vlan_tci & ND_VLAN_ID_MASK)
		return 0;
	if (eth->h_proto == protocol) {
		__builtin_memcpy(found->mac, eth->h_source, sizeof(found->mac));
		whole = nd_ip(eth + 1, end, protocol, found);
		found->offset += sizeof(*eth);
	} else {
		/*
		 * The data begin with the IP header. A packet that the kernel
		 * copied for an XDP program in generic mode has lost the length of
		 * its link-layer header (mac_len in skb_pp_cow_data, Linux 6.18).
		 * The link-layer header itself is still there.
		 */
		if (bpf_skb_load_bytes_relative(skb, ETH_ALEN, found->mac, sizeof(found->mac), BPF_HDR_START_MAC))
			return 0;
		whole = nd_ip(eth, end, protocol, found);
	}
	return whole && nd_equal(&found->dst, &nd_to);
}

/* Reports whether the kernel would give the packet to the socket in nd_owners. */
static __always_inline int nd_owned(struct __sk_buff *skb, const struct nd_found *found)
{
	struct bpf_sock_tuple tuple = {};
	__u32 size = sizeof(tuple.ipv4);
	struct bpf_sock *sock;
	int owned;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		tuple.ipv4.saddr = found->src.word[3];
		tuple.ipv4.daddr = found->dst.word[3];
		tuple.ipv4.sport = found->sport;
		tuple.ipv4.dport = found->dport;
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &found->src, sizeof(found->src));
		__builtin_memcpy(tuple.ipv6.daddr, &found->dst, sizeof(found->dst));
		tuple.ipv6.sport = found->sport;
		tuple.ipv6.dport = found->dport;
		size = sizeof(tuple.ipv6);
	}
	sock = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	owned = bpf_sk_storage_get(&nd_owners, sock, 0, 0) != 0;
	bpf_sk_release(sock);
	return owned;
}

static __always_inline int nd_put(struct __sk_buff *skb, const struct nd_found *found, struct nd_page *page, __u32 room)
{
	struct nd_arrival *to;
	__u64 len = found->len, least = 1, taken;
	__u32 asleep;

	to = bpf_ringbuf_reserve(&nd_packets, sizeof(*to) + room, 0);
	if (!to)
		return 0;
	__builtin_memcpy(to->addr, &found->src, sizeof(to->addr));
	to->port = found->sport;
	to->marked = found->marked;
	to->len = len;
	__builtin_memcpy(to->mac, found->mac, sizeof(to->mac));
	to->passed = *(volatile __u64 *)&page->passed;
	to->at = bpf_ktime_get_ns();
	/*
	 * The verifier must see that len is between 1 and room. The compiler would
	 * merge the two checks into one comparison of len - 1, from which Linux
	 * 6.12 and older learn nothing about len. So the checks are kept apart. The
	 * first one compares with a register, because the compiler turns a
	 * comparison with the constant 1 into one with 0.
	 */
	asm volatile("" : "+r"(len), "+r"(least));
	if (len < least)
		goto discard;
	asm volatile("" : "+r"(len));
	if (len > room || bpf_skb_load_bytes(skb, found->offset, to + 1, len))
		goto discard;
	/*
	 * A process that is about to sleep first stores this, and then checks
	 * whether a record was reserved. The addition is a full barrier, so at
	 * least one of the two sides sees the other side's write. If its result is
	 * not used, the compiler emits an addition without ordering.
	 */
	taken = __sync_fetch_and_add(&nd_taken, 1);
	asm volatile("" : : "r"(taken));
	asleep = *(volatile __u32 *)&page->asleep;
	if (asleep == ND_WAKE) /* who is woken looks, and says so again before he sleeps on */
		*(volatile __u32 *)&page->asleep = ND_AWAKE;
	bpf_ringbuf_submit(to, asleep == ND_AWAKE ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	return 1;

discard:
	bpf_ringbuf_discard(to, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tcx/ingress")
int nd_ring(struct __sk_buff *skb)
{
	struct nd_found found = {};
	struct nd_page *page;
	__u32 first = 0;

	if (!nd_find(skb, &found))
		return ND_TCX_NEXT;
	page = bpf_map_lookup_elem(&nd_pages, &first);
	if (!page)
		return ND_TCX_NEXT;
	if (found.dport != nd_to_port) {
		if (found.dport == *(volatile __be16 *)&page->bulk_port && found.dport)
			__sync_fetch_and_add(&page->bulk, 1);
		return ND_TCX_NEXT;
	}
	/*
	 * A packet from our own address cannot come from the wire, and the kernel
	 * drops it. On a loopback interface all packets come from this machine.
	 */
	if (!nd_loopback && nd_equal(&found.src, &nd_to))
		return ND_TCX_NEXT;
	if (nd_checks && !nd_owned(skb, &found))
		return ND_TCX_NEXT;
	if (found.len && *(volatile __u32 *)&page->asleep != ND_TO_SOCKET && !skb->gso_size) {
		if (found.len <= ND_SHORT_ARRIVAL ? nd_put(skb, &found, page, ND_SHORT_ARRIVAL)
						  : found.len <= ND_LONG_ARRIVAL && nd_put(skb, &found, page, ND_LONG_ARRIVAL))
			return ND_TCX_DROP; /* taken */
	}
	__sync_fetch_and_add(&page->passed, 1);
	return ND_TCX_NEXT;
}

/* No helper here is GPL-only. */
char _license[] SEC("license") = "Apache-2.0";
