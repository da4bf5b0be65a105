// Package udp sends and receives datagrams in batches through plain UDP sockets. It knows nothing about their contents.
//
// It needs no privilege. It has a socket for each local port, moves many datagrams per system call, and keeps payload in frames of
// fixed size from a Pool. The standard library's sockets cannot do this: they allocate, and move one datagram per system call.
//
// A frame is free (in the pool), posted (in a Receiver, for the next datagram), or owned by the caller, from Get or Take until Put.
// Nothing here is safe for concurrent use, except Socket.Drops and Close of different sockets.
package udp
