// Package broker hands opened AF_XDP sockets from a process that may open them to one that may do nothing: what they say to each other,
// and both ends of it.
//
// The two meet at a Unix socket that keeps message boundaries (SOCK_SEQPACKET). The client sends one Request, the broker answers
// with one reply: a reason, or a Grant with the descriptors of the memory and of one socket for each receive queue (SCM_RIGHTS).
// Both are JSON. After that nothing is said: the connection stays open for as long as the sockets are used. When the client's
// end closes, which the kernel does for a process that died, the broker takes the steering away; when the broker's end closes,
// the client's device is gone.
package broker
