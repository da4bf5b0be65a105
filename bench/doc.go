// Package bench describes benchmark scenarios once and runs them the same way everywhere.
//
// A [Spec] names one measurement: the operation, the message size, how long, how completions are awaited. The same specs
// run over package nd ([Serve] and [Run]), and their ceilings and rivals run beside them as a [Job] of [KindRaw], AF_XDP without
// any protocol, or of [KindTCP] or [KindTCPSpin], kernel TCP. Everything ends in a [Report], whose JSON form is a stable
// schema ([Schema]) that [Report.Validate] checks.
//
// Latency is half a round trip where two sides answer each other (write and send), because that is what one message costs;
// it is the whole operation where the responder's application takes no part (read). Every figure says which it is.
//
// The package lives beside nd and not above it for one reason: the ceiling beneath nd has to be measured with the same
// sockets, programs and clocks as nd itself, so this package may import xdp and bpf, which no other user of nd may.
package bench
