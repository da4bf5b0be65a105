// Package ndnet is net.Conn, net.Listener and a dialer over queue pairs, so that net/http, gRPC and everything else that
// speaks through package net runs over ND unchanged.
//
// A connection is one queue pair and one completion queue. The bytes of each direction go with one-sided Writes into a ring of the reader's
// memory, or, when they are few, in a message; a message follows every Write and says how far the ring is filled. The reader says how
// far it has read, and the writer never writes more than the ring takes, so that nothing waits in the transport for a reader that
// is slow: a writer waits here instead, under its deadline. A connection has no goroutine: whoever waits in Read or Write waits in the completion
// queue itself. Only what a Write could not send at once, and Close, have one, until it is sent.
//
// Small writes are sent at once while few messages are on their way, and gather while many are. What has gathered leaves with a later Write, or when somebody
// reads; where neither happens, about a millisecond later.
//
// # Messages
//
// A message is a Send of at most 160 bytes. It begins with 12 bytes, big endian: flags (1), zero (1), the number of receives that
// its sender has posted (2), of the bytes it has written, those of this message included (4), and of those it has read (4), each counted from the
// beginning of the connection and cut to its low bits. With flag 4 a ring follows: address (8), token (4), size in bytes (4). All else is
// data: the newest bytes of the stream, which the reader puts into its ring itself.
//
//   - Flag 1: no more data follows, the sender has shut down writing.
//   - Flag 2: the sender reads no more.
//   - Flag 4: a ring is offered. It is used when the peer says so; no other one is offered before.
//   - Flag 8: the ring that was offered last is in use, from this message's bytes on, which begin at its first byte. Bytes before are in the ring before.
//   - Flag 16: the sender has more to write than the ring takes.
//
// A ring's size is a power of two of 512 to 64 Mi. The byte at position p of the stream has its place at p - s modulo the size, s being
// the position at which the ring came into use. Token 0 is a ring that cannot be written into: all bytes come in messages.
//
// The private data of both sides is 24 bytes: "ndnet", version 2 (1), receives posted (2), 8 to 1024, and the first ring (16).
//
// A message uses a receive of the peer. One that carries data or a Write leaves two of them, one that only says something leaves one, but
// for one that says of at least half of its sender's receives that they are new. So both sides can always say that.
//
// A side ends the connection with EPROTO when the other says that it has read what was not written, written more than the ring takes or behind its end,
// posted fewer receives than before, or more than 1024 at once, uses a ring that was not offered, or offers one before the last is in use.
//
// # Processes that end
//
// When a process ends, the kernel delivers what its TCP connections still have to send, and closes them. Nobody does that for connections over ND, and Go
// runs nothing when main returns. So Conn.Close waits until the peer's host has everything, for a bounded time, and a program that closes its connections may
// return from main: http.Server.Shutdown closes those of a server, http.Transport.CloseIdleConnections those of a client. Wait waits for what a Close has given up
// waiting for, and closes adapters that nobody uses. Behind it no goroutine of this package is left, but for connections and listeners that are open.
//
// The peer of a process that was killed, or did not close its connections, is told by the kernel there, which answers that nobody has the UDP port: Read and Write
// end with ECONNRESET, within some round trips while something is sent, and with the next sign of life, after 10 to 15 s, while the connection is idle.
// KeepAlive of Dialer and ListenConfig, or Conn.SetKeepAliveConfig, has it noticed sooner. So it does when a process of the same user has the UDP port
// by then, as one that was started again.
//
// Where no ICMP error arrives, because the host is gone, a firewall drops them, or the process uses a broker and lacks CAP_NET_RAW, the peer finds out by
// silence. Then Read and Write end with ETIMEDOUT when something was on its way there, else with ECONNRESET: on the adapters of Dialer and
// ListenConfig after 60 to 75 seconds, because they outlive that a process is stopped for a while; on an adapter of the caller's after
// AdapterConfig.PeerTimeout, and up to 15 s more when the connection was idle.
//
// # Addresses
//
// Addresses are *net.TCPAddr, because programs look for that type to find the IP address of a peer. Their network is "tcp". A connection over ND is a
// *Conn, one over TCP a *net.TCPConn, and errors of ND have "nd" in net.OpError.Net. The port of an address is an ND port.
//
// # Errors
//
// Errors are *net.OpError. Inside, for errors.Is, are what package net would have (ECONNREFUSED, ECONNRESET, EPIPE, ETIMEDOUT, EADDRINUSE,
// os.ErrDeadlineExceeded, net.ErrClosed and others) and the nd.Status behind it.
package ndnet
