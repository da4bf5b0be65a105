// Package ndnet provides net.Conn, net.Listener and a dialer over queue pairs, so that net/http, gRPC and other users of package net run
// over ND unchanged.
//
// A connection is one queue pair and one completion queue. The bytes of each direction are sent with one-sided Writes into a ring in the
// reader's memory, or in a message if they are few. A message follows every Write and says how far the ring is filled. The reader reports
// how far it has read, and the writer never writes more than the ring takes. So nothing waits in the transport for a slow reader: the
// writer waits in Write, under its deadline.
//
// A connection has no goroutine of its own: a goroutine that calls Read or Write waits in the completion queue itself. Only bytes that a
// Write could not send at once, and Close, have a goroutine until the bytes are sent.
//
// Small writes are sent at once while few messages are in flight, and are gathered while many are. Gathered bytes leave with a later Write,
// when a goroutine reads, or after about a millisecond.
//
// In a bubble of package testing/synctest, connections do not work: goroutines of the adapter are outside the bubble, or keep it from ending.
//
// # Messages
//
// A message is a Send of at most 160 bytes. It begins with 12 bytes, big endian:
//
//	flags (1)
//	zero (1)
//	receives that the sender has posted (2)
//	stream bytes that the sender has written, including this message's (4)
//	stream bytes that the sender has read (4)
//
// The counts are the low bits of counts from the beginning of the connection. With flag 4 a ring follows: address (8), token (4), size in
// bytes (4). The rest is data: the newest bytes of the stream, which the reader copies into its ring itself.
//
//   - Flag 1: the sender has shut down writing; no more data follows.
//   - Flag 2: the sender reads no more data.
//   - Flag 4: the message offers a ring. The peer says when it uses the ring; no further ring is offered before.
//   - Flag 8: the ring offered last is in use. This message's bytes are its first bytes; earlier bytes are in the previous ring.
//   - Flag 16: the sender has more to write than the ring takes.
//   - Flag 32: the ring starts again: this message's bytes are at its beginning. Everything before was read.
//
// A ring's size is a power of two of 512 to 64 Mi. The byte at position p of the stream is at offset (p - s) modulo the size. The ring came
// into use, or started again, at position s. A ring with token 0 cannot be written: all bytes come in messages.
//
// The private data of both sides is 24 bytes: "ndnet", version 3 (1), receives posted (2), 8 to 1024, and the first ring (16).
//
// A message uses a receive of the peer. A message with data or after a Write must leave two receives. Any other message must leave one,
// unless it announces that at least half of its sender's receives are new. So both sides can always announce new receives.
//
// A side ends the connection with EPROTO if the peer does one of the following:
//
//   - It reports to have read bytes that were not written.
//   - It has written more than the ring takes, or beyond its end.
//   - It reports fewer receives than before, or more than 1024 at once.
//   - It starts a ring again while bytes in it are unread.
//   - It uses a ring that was not offered, or offers a ring before the last one is in use.
//
// # Processes that end
//
// When a process ends, the kernel delivers the data that its TCP connections have not sent, and closes them. For connections over ND
// nothing does this, and Go runs nothing after main returns. So Conn.Close waits, for a bounded time, until the peer's host has everything.
// A program that closes its connections may return from main: http.Server.Shutdown closes a server's connections,
// http.Transport.CloseIdleConnections a client's. Wait waits for data that a Close has left to the background, and closes adapters without
// users. After Wait this package has no goroutine, except for open connections and listeners.
//
// A program that returns from main or calls os.Exit without a Close tells its peers nothing, as if it were killed. Bytes that the peer's host
// has not acknowledged are lost. The kernel then answers packets of the peer with an ICMP error, because no process has the UDP port. The
// peer's Read and Write end with ECONNRESET. While data is being sent, that takes some round trips; an idle connection notices with its next
// keep-alive, after 10 to 15 s. KeepAlive of Dialer and ListenConfig, or Conn.SetKeepAliveConfig, shortens this time. The same happens if
// another process of the same user has taken the UDP port meanwhile, for example after a restart.
//
// No ICMP error arrives if the host is gone or a firewall drops the error. A process that uses AF_XDP of a broker without CAP_NET_RAW gets
// errors about at most 1024 source ports, and about no more than a quarter of its limit of descriptors. The peer is then noticed
// by silence. Read and Write end with ETIMEDOUT if data was in flight, and otherwise with ECONNRESET. On the adapters of Dialer and
// ListenConfig this takes 60 to 75 seconds, so that a process may be stopped for a while. On an adapter of the caller's it takes
// AdapterConfig.PeerTimeout, and up to 15 s more on an idle connection.
//
// # Addresses
//
// Addresses are *net.TCPAddr, because programs look for this type to find the IP address of a peer. Their network is "tcp". A connection
// over ND is a *Conn, a connection over TCP a *net.TCPConn. Errors of ND have "nd" in net.OpError.Net. The port of an address is an ND
// port.
//
// # Errors
//
// Errors are *net.OpError. errors.Is finds the error that package net would return (ECONNREFUSED, ECONNRESET, EPIPE, ETIMEDOUT, EADDRINUSE,
// os.ErrDeadlineExceeded, net.ErrClosed and others) and the nd.Status behind it. It also has an
// *os.SyscallError, as in package net.
package ndnet
