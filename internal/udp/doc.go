// Package udp moves datagrams through plain UDP sockets in batches, and knows nothing about what they carry.
//
// It is what needs no privilege: a socket for every local port, many datagrams for a system call, payload in frames of a
// fixed size that a Pool owns. The standard library's sockets cannot do this: they allocate, and they move one datagram
// for a call.
//
// A frame is free (in the pool), posted (in a Receiver, for the next datagram), or the caller's: from Get or Take until
// Put. Nothing here may be used by two goroutines at once, except Socket.Drops and Close of different sockets.
package udp
