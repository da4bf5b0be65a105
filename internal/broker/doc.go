// Package broker passes AF_XDP sockets from a privileged process, the broker, to an unprivileged process, the client. It implements
// both ends and their protocol.
//
// They connect by a Unix socket that keeps message boundaries (SOCK_SEQPACKET). The client sends one Request. The broker answers
// with one reply: a reason, or a Grant with the descriptors of the memory and of one socket for each receive queue (SCM_RIGHTS).
// Both are JSON. Nothing more is sent, and the connection stays open while the sockets are used. When the client closes its end,
// which the kernel does when a process ends, the broker stops steering packets to the sockets. When the broker closes its end, the
// client's device ends.
package broker
