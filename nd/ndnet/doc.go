// Package ndnet is net.Conn, net.Listener and a dialer over queue pairs, so that net/http, gRPC and everything else that
// speaks through package net runs over ND unchanged.
//
// A connection is one queue pair. Its bytes travel as Sends into receives that are always posted: each side tells the other
// how many it may use, so that no Send ever waits in the transport for a reader that is slow (one that waits for two seconds
// ends its connection), and a writer waits here instead, under its deadline. The credits ride on data, and alone when half of
// them are unreported.
//
// # Message format
//
// Every Send begins with 8 bytes, big endian: flags (1), zero (3), and the number of receives that its sender has posted since
// the connection was made (4), modulo 2^32. Flag 1: no more data follows, the sender has shut down writing. Flag 2: the sender is
// gone, it will not read either. Data follows, and may be empty.
//
// The private data of both sides is 16 bytes: "ndnet", version 1 (1), receives posted (2), bytes of the largest message (4),
// zero (4).
package ndnet
