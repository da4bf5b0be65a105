// Package xdp manages AF_XDP sockets, their UMEM frames and their four rings. It knows nothing about the contents of frames.
//
// # Terms
//
// A UMEM is one mapping that the kernel and this process share. It is laid out
//
//	[ rx frames | tx frames | arena ]
//
// in frames (the kernel says chunks) of FrameSize bytes. A UMEM address is a byte offset into this mapping. A descriptor names
// bytes inside one frame. A packet has one or more descriptors; all but the last are marked with PacketContinues. A socket (XSK)
// serves one NIC queue and has four rings, each with one producer and one consumer:
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
// Rx frames and tx frames are disjoint pools, so receiving and sending share nothing. An rx frame may also be sent unchanged (an
// echo). It returns to the rx pool when Complete reaps it. A frame may be in at most one descriptor at a time; arena memory may be
// in any number. The build tag xdpdebug checks each of these moves and panics at the first violation. Without the tag the check
// costs nothing.
//
// # Ownership and ordering contract
//
// X1. A Socket has one owner at a time, and only the owner calls its methods. Any goroutine may call Stats. Close must not run
// concurrently with another method: the caller stops the owner (flag, wake, wait) before it calls Close, which unmaps the rings.
//
// X2. Words that both sides of a ring access are accessed through sync/atomic only. A slot is written before the index that covers
// it is stored, and read after this index is loaded. Go's atomics are sequentially consistent, which is stronger than the acquire
// and release that a ring needs. Indices are published once per batch.
//
// X3. Every descriptor that Transmit takes is completed exactly once, even an invalid one. The kernel refuses invalid descriptors
// without completing them, which would leak the frame. So Transmit does not pass them to the kernel.
//
// X4. The number of outstanding descriptors is at most the number of slots of the completion ring, so the kernel never waits for
// Complete in the middle of a packet.
//
// X5. Recycle and FreeTx accept only frames of the socket's own pools, and each frame once. They panic on a foreign frame, and if a
// pool would exceed its size.
//
// X6. Nothing allocates after Open: stacks, rings and scratch memory have their final size then.
//
// # No need for wakeup
//
// XDP_USE_NEED_WAKEUP is not used. In copy mode it changes nothing, because sending always needs a system call and receiving never
// does. In zero-copy mode drivers with this flag stop receiving when a packet finds the rx ring full, and wait for a wake-up
// (IXGBE_XDP_EXIT in ixgbe_run_xdp_zc, similarly in i40e and ice). So a stopped process would block the whole queue. Without the
// flag the driver drops the packet and reuses its frame. Kick wakes the driver for packets to send and completions; the driver
// polls the fill ring by itself.
//
// # What a veth does with NIC queues
//
// In native mode, a packet sent on queue i arrives on queue i of the peer. In generic mode, it arrives on queue max(0, i-1): the
// kernel stores the transmit queue, counted from 0, in a field that the receiver reads as a receive queue, counted from 1 (measured
// on Linux 6.18; checked by TestKernelSharedUMEM).
package xdp
