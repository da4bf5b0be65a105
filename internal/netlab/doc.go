// Package netlab builds temporary networks of anonymous namespaces and veth pairs, for tests and for ndperf veth.
//
// A Pair is two hosts on one link. A Star is a router between hosts, each in its own network. A port of the router can get a
// Bottleneck, a smaller MTU, and tc programs.
//
// Nothing is named, pinned or mounted. A namespace lives as long as a descriptor or a process holds it. The kernel removes it and
// its links when the last holder is gone, even after kill -9. The host's own namespace never contains a link made here. Building
// needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
//
// A network namespace belongs to a thread, not to a goroutine. Code that runs under Namespace.Do is inside; a goroutine that it
// starts is not. A socket stays in the namespace in which it was opened, whichever thread uses it later.
package netlab
