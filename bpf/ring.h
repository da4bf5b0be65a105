/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ND_RING_H
#define ND_RING_H

/*
 * These structs are shared by the program and the process. Package internal/rxring
 * reads both structs with constants of its own, and tests of package bpf check these
 * constants.
 */

/* nd_arrival is one packet in the ring: its source and its UDP payload. */
struct nd_arrival {
	__u32 addr[4]; /* source address in network order, IPv4 as ::ffff:a.b.c.d */
	__u16 port;    /* source port in network order */
	__u16 marked;  /* not 0: with a congestion mark (CE, RFC 3168) */
	__u32 len;     /* bytes of payload, which follow */
	__u8 mac[6];   /* source address of the link layer */
	__u16 passed;  /* of nd_page, when the packet came: so many went to the socket before it */
	__u64 at;      /* when it came, in nanoseconds of CLOCK_MONOTONIC */
};

/* nd_sleep says whether a goroutine polls for packets, and where goroutines sleep. */
enum nd_sleep {
	ND_AWAKE = 0,	  /* somebody looks at the ring */
	ND_TO_SOCKET = 1, /* somebody sleeps at the socket: it gets everything */
	ND_WAKE = 2,	  /* somebody sleeps at the ring: it goes on, and wakes him */
};

/*
 * nd_page is a page that the process maps. The process writes the first cache line,
 * and the program writes all others, because both are written often.
 */
struct nd_page {
	__u32 asleep;	  /* an nd_sleep */
	__be16 bulk_port; /* of another socket of the process at the same address; 0 without one */
	__u16 pad[29];
	__u64 passed; /* packets for the process that went to its socket */
	__u64 pad2[7];
	__u64 bulk; /* packets for bulk_port, which all go to that socket */
};

/* The field for explicit congestion notification, RFC 3168 5. */
#define ND_ECN_MASK 3
#define ND_ECN_CE 3

/* Verdicts of programs at tcx (Linux 6.6, enum tcx_action_base), for older headers. */
#define ND_TCX_NEXT -1
#define ND_TCX_DROP 2

/* Payload sizes of the two kinds of records. Longer packets go to the socket. */
#define ND_SHORT_ARRIVAL 232
#define ND_LONG_ARRIVAL 2024

#endif
