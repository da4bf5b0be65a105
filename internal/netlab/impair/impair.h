/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ND_IMPAIR_H
#define ND_IMPAIR_H

/*
 * nd_fate says what the program did to one packet; a packet may have several.
 * It is the key of nd_fates and becomes Go constants.
 */
enum nd_fate {
	ND_SEEN = 0,   /* UDP to nd_port: each of these counts here once */
	ND_DROPPED,
	ND_DUPLICATED, /* a second one was sent in front of it */
	ND_CORRUPTED,  /* one byte behind the UDP header was changed */
	ND_MARKED,     /* CE was set, now or before */
	ND_UNMARKABLE, /* to be marked, but Not-ECT */
	ND_FATE_COUNT,
};

/* nd_impairment is what happens to packets. Probabilities are in 1/2^32. */
struct nd_impairment {
	__u32 loss;
	__u32 duplication;
	__u32 corruption;
	__u32 dead_port; /* packets from this UDP source port are dropped; 0 for none */
	__u64 mark_ns;   /* packets that would wait longer are marked; 0 for none */
	__u64 mark_rate; /* in a queue of so many bytes a second */
};

#endif
