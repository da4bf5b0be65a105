// Package bench defines benchmark scenarios and runs them in the same way on every transport.
//
// A [Spec] describes one measurement: the operation, the message size, the duration, and how completions are awaited. The same
// specs run over package nd ([Serve] and [Run]), and as a [Job] over its ceiling ([KindRaw], AF_XDP without a protocol) and its
// rivals ([KindTCP] or [KindTCPSpin], kernel TCP). The results are collected in a [Report], whose JSON form is a stable schema
// ([Schema]) that [Report.Validate] checks.
//
// Latency is half a round trip if two applications answer each other (write and send), because this is the cost of one message. It
// is the whole operation if the responder's application takes no part (read). Every figure states which of the two it is.
//
// The package is not built on nd alone: the ceiling must be measured with the same sockets, programs and clocks as nd. So this
// package may import xdp and bpf, which other users of nd may not.
package bench
