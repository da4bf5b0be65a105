// Package xdp owns AF_XDP sockets, their UMEM frames and their four rings, and nothing about what the frames carry.
//
// # Terms
//
// A UMEM is one mapping that the kernel and this process share. It is laid out
//
//	[ rx frames | tx frames | arena ]
//
// in frames (the kernel says chunks) of FrameSize bytes. A UMEM address is a byte offset into that mapping. A descriptor
// names a run of bytes that lies inside one frame; a packet is one or more descriptors, all but the last marked with
// PacketContinues. A socket (XSK) serves one NIC queue and has four rings of one producer and one consumer each:
//
//	fill        this process -> kernel   empty rx frames
//	rx          kernel -> this process   filled rx frames
//	tx          this process -> kernel   descriptors to send
//	completion  kernel -> this process   addresses that were sent
//
// # Frame life cycle
//
// A frame has exactly one owner at any time:
//
//	rx frame:  free --Refill--> fill ring --(kernel)--> rx ring --Receive--> engine --Recycle--> free
//	tx frame:  free --AllocTx--> engine --Transmit--> tx ring --(kernel), Complete--> free
//	                                \--FreeTx--> free
//
// Rx frames and tx frames are disjoint pools, so receiving and sending share nothing. An rx frame may also be sent as it
// is (an echo); it then comes back to the rx pool when Complete reaps it. A frame may appear in at most one descriptor
// at a time; arena memory in any number of them. The build tag xdpdebug audits every one of these moves and panics at
// the first misplaced frame. Without the tag the audit costs nothing.
//
// # Ownership and ordering contract
//
// X1. A Socket has one owner at a time, and only the owner calls its methods. Anyone may call Stats. Close must not run
// beside another method: the first closer stops the owner (flag, wake, wait), then calls Close, which unmaps.
//
// X2. The words that both sides of a ring read are touched through sync/atomic only. A slot is written before the
// index that covers it is stored, and read after the index that covers it was loaded; Go's atomics are sequentially
// consistent, which is more than the acquire and release that the ring needs. Indices are published once per batch.
//
// X3. Every descriptor that Transmit takes is completed exactly once, a descriptor that the kernel would refuse
// included. The kernel refuses bad descriptors without completing them, which would leak the frame, so Transmit never
// lets it see one.
//
// X4. At most as many descriptors are outstanding as the completion ring has slots, so the kernel never waits for
// Complete in the middle of a packet.
//
// X5. Recycle and FreeTx accept frames of the socket's own pools only, once each. A foreign frame, or one frame more
// than the pool has, panics.
//
// X6. Nothing here allocates after Open: stacks, rings and scratch have their final size then.
//
// # No need for wakeup
//
// XDP_USE_NEED_WAKEUP is not used. In copy mode it changes nothing: sending needs a system call, and receiving needs
// none. In zero-copy mode it makes drivers stop receiving at the first packet that finds the rx ring full, and wait to
// be woken (ixgbe_run_xdp_zc and its likes in i40e and ice: IXGBE_XDP_EXIT). A stopped process would then block the
// whole queue. Without the flag the driver drops the packet and reuses its frame. The driver is woken for every packet
// to send or to complete, and handles the fill ring by itself.
//
// # What a veth does with NIC queues
//
// In native mode a packet sent on queue i arrives on queue i of the peer. In generic mode it arrives on queue max(0,
// i-1): the kernel stores the transmit queue, counted from 0, in the field where receive looks for a recorded rx queue,
// counted from 1 (measured on Linux 6.18; TestKernelSharedUMEM holds it).
package xdp
