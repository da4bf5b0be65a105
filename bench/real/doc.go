// Command real runs real Go programs over kernel TCP and over ndnet, side by side: net/http, gRPC, redis, raft, websockets,
// fasthttp, ssh, NATS and net/rpc. Clients and servers are the unmodified public ones.
//
// Each measurement has two processes, a client and a server, in two network namespaces connected by a veth pair. A program gets
// functions that dial and listen, and does not know the transport: either net.Dialer and net.ListenConfig, or ndnet.Dialer and
// ndnet.ListenConfig, all with zero values. Both processes may use all cores. Answers are verified.
//
// A round runs each case over both transports in succession. The ratio of a case is the median of the ratios of its rounds.
//
// It is a separate module, so that the programs do not become dependencies of the library.
package main
