// Package bpf steers ND-port UDP traffic to AF_XDP sockets and leaves everything else to the kernel.
//
// An XDP program, nd_steer, examines each frame of an interface. It redirects a frame to the AF_XDP socket of the frame's receive queue
// if all of the following hold: Ethernet, untagged or with a priority tag (802.1Q with VLAN id 0); IPv4 without options, not a fragment,
// or IPv6 without extension headers; UDP to the configured port; a destination address added by AddAddress; a socket set for the queue.
//
// It drops one kind of frame: a frame that would be redirected but has a local source address, which cannot arrive from
// the wire. Every other frame passes to the kernel as if the program were not there. Every decision is counted under a
// Verdict.
//
// Unloading is always safe. The program is attached by a bpf_link that only this process holds, so the kernel detaches
// it when the process ends in whatever way, and from then on all frames pass. A queue whose socket closes loses its map
// entry by itself and its frames pass too. Nothing is pinned.
//
// Attaching never replaces a program: if another process has attached a program, Attach fails with an error that names the holder.
//
// A frame of a VLAN passes. It belongs to the interface of the VLAN, where another program receives it without the tag. But a network
// card that strips VLAN tags in hardware, and a veth link with VLAN acceleration, deliver frames whose tag the program cannot see. Such a
// frame looks untagged and is steered by its addresses alone; turn rxvlan off where VLANs separate tenants.
//
// A second program, nd_ring, is for processes that share an interface. At the ingress of traffic control it copies small
// packets for one UDP socket into a ring (AttachRing, package internal/rxring); all other packets go to the socket. An
// interface can have many of these programs. The ring of a process without privileges (AttachRingOf) gets a packet only
// while the kernel would give it to the socket of that process.
//
// Interfaces are looked up in the network namespace of the calling thread.
package bpf
