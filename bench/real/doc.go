// Command real runs real Go programs over kernel TCP and over ndnet, side by side: net/http, gRPC, redis, raft, websockets, fasthttp, ssh,
// NATS and net/rpc, with public clients and servers as they are.
//
// Each measurement has two processes of its own, a client and a server, in two network namespaces joined by a veth pair. A program
// gets functions that dial and listen, and does not know which transport they belong to: either net.Dialer and net.ListenConfig or
// ndnet.Dialer and ndnet.ListenConfig, all with their zero values. Both processes may use all cores. Answers are verified.
//
// A round runs all cases, and each case over both transports in a row. The ratio of a case is the median of the
// ratios of its rounds.
//
// It is a module of its own, so that the programs do not become dependencies of the library.
package main
