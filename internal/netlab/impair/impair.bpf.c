//go:build ignore

// SPDX-License-Identifier: Apache-2.0
/*
 * nd_impair spoils ND packets on their way out of a router's port, in front of
 * the port's queue: it drops, duplicates, corrupts and marks them, and lets none
 * pass from one source port, as a dead path does among several of equal cost. Everything
 * but UDP to nd_port passes untouched.
 *
 * Marking follows a queue that exists only here (a phantom queue: Alizadeh et
 * al., NSDI 2012), because a program cannot see how long the real one is.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "impair.h"

/* Network byte order, written before the program is loaded. */
const volatile __be16 nd_port = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nd_impairment);
	__uint(max_entries, 1);
} nd_impairments SEC(".maps");

/* What lasts from one packet to the next. */
struct nd_state {
	struct bpf_spin_lock lock;
	__u64 random;  /* never zero */
	__u64 free_ns; /* when the last packet has left the phantom queue */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nd_state);
	__uint(max_entries, 1);
} nd_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, enum nd_fate);
	__type(value, __u64);
	__uint(max_entries, ND_FATE_COUNT);
} nd_fates SEC(".maps");

/* The clone of a packet passes the program again, under this mark. */
#define ND_CLONE_MARK 0x6e64

/* A queue of so many times mark_ns takes no more, as a real one would not. */
#define ND_PHANTOM_LIMIT 8

/* What is decided about one packet, all of it under the lock. */
struct nd_plan {
	__u64 drop, duplicate, corrupt, where;
	int mark;
};

static __always_inline void nd_count(enum nd_fate fate)
{
	__u64 *count = bpf_map_lookup_elem(&nd_fates, &fate);

	if (count)
		(*count)++;
}

/* xorshift64* (Vigna, 2016), upper half: reproducible, unlike the kernel's. */
static __always_inline __u64 nd_random(struct nd_state *state)
{
	state->random ^= state->random >> 12;
	state->random ^= state->random << 25;
	state->random ^= state->random >> 27;
	return (state->random * 0x2545f4914f6cdd1dULL) >> 32;
}

/* Puts a packet into the phantom queue and says whether it is to be marked. */
static __always_inline int nd_phantom(struct nd_state *state, const struct nd_impairment *how,
				      __u64 now, __u32 len)
{
	__u64 wait;

	if (!how->mark_ns || !how->mark_rate)
		return 0;
	if (state->free_ns < now)
		state->free_ns = now;
	wait = state->free_ns - now;
	if (wait < ND_PHANTOM_LIMIT * how->mark_ns)
		state->free_ns += len * 1000000000ULL / how->mark_rate;
	return wait > how->mark_ns;
}

static __always_inline void nd_decide(struct nd_state *state, const struct nd_impairment *how,
				      __u32 len, struct nd_plan *plan)
{
	__u64 now = bpf_ktime_get_ns();

	bpf_spin_lock(&state->lock);
	plan->drop = nd_random(state);
	plan->duplicate = nd_random(state);
	plan->corrupt = nd_random(state);
	plan->where = nd_random(state);
	plan->mark = nd_phantom(state, how, now, len);
	bpf_spin_unlock(&state->lock);
}

/* Returns where the payload of a packet to nd_port begins, 0 if it is none. */
static __always_inline __u32 nd_payload(struct __sk_buff *skb)
{
	__u32 at = ETH_HLEN;
	struct udphdr udp;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.protocol != IPPROTO_UDP || ip.ihl != 5)
			return 0;
		at += sizeof(ip);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.nexthdr != IPPROTO_UDP)
			return 0;
		at += sizeof(ip);
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)) || udp.dest != nd_port)
		return 0;
	return at + sizeof(udp);
}

/* Says whether the packet comes from the source port whose path is dead. */
static __always_inline int nd_dead(struct __sk_buff *skb, __u32 payload,
				   const struct nd_impairment *how)
{
	__be16 source;

	if (!how->dead_port)
		return 0;
	if (bpf_skb_load_bytes(skb, payload - sizeof(struct udphdr), &source, sizeof(source)))
		return 0;
	return bpf_ntohs(source) == how->dead_port;
}

/* Changes one byte behind the UDP header, and no checksum. */
static __always_inline void nd_corrupt(struct __sk_buff *skb, __u32 payload, __u64 where)
{
	__u32 at;
	__u8 byte;

	if (skb->len <= payload)
		return;
	at = payload + (__u32)where % (skb->len - payload);
	if (bpf_skb_load_bytes(skb, at, &byte, 1))
		return;
	byte ^= 1 + (where >> 24) % 255;
	if (!bpf_skb_store_bytes(skb, at, &byte, 1, 0))
		nd_count(ND_CORRUPTED);
}

SEC("tc")
int nd_impair(struct __sk_buff *skb)
{
	struct nd_impairment *how;
	struct nd_plan plan = {};
	struct nd_state *state;
	__u32 payload, zero = 0;

	if (skb->mark == ND_CLONE_MARK)
		return TC_ACT_OK;
	payload = nd_payload(skb);
	how = bpf_map_lookup_elem(&nd_impairments, &zero);
	state = bpf_map_lookup_elem(&nd_states, &zero);
	if (!payload || !how || !state)
		return TC_ACT_OK;
	nd_count(ND_SEEN);
	nd_decide(state, how, skb->len, &plan);
	if (plan.drop < how->loss || nd_dead(skb, payload, how)) {
		nd_count(ND_DROPPED);
		return TC_ACT_SHOT;
	}
	if (plan.mark)
		nd_count(bpf_skb_ecn_set_ce(skb) ? ND_MARKED : ND_UNMARKABLE);
	if (plan.duplicate < how->duplication) {
		skb->mark = ND_CLONE_MARK;
		if (!bpf_clone_redirect(skb, skb->ifindex, 0))
			nd_count(ND_DUPLICATED);
		skb->mark = 0;
	}
	if (plan.corrupt < how->corruption)
		nd_corrupt(skb, payload, plan.where);
	return TC_ACT_OK;
}

/* Nothing here needs a GPL-only helper. */
char _license[] SEC("license") = "Apache-2.0";
