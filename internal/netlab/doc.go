// Package netlab builds throw-away networks of anonymous namespaces and veth pairs, for tests and for ndperf veth.
//
// A Pair is two hosts on one link. A Star is a router between hosts, each in a network of its own; its ports can be made a
// Bottleneck, get a smaller MTU, and carry tc programs.
//
// Nothing is named, pinned or mounted: a namespace lives as long as a descriptor or a process holds it, and the kernel
// removes it together with its links when the last holder is gone, also after kill -9. The host's own namespace never
// sees a link made here. Building needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
//
// A network namespace belongs to a thread, not to a goroutine: code that runs under Namespace.Do is inside, a goroutine
// that it starts is not. Sockets stay in the namespace that they were opened in, whoever uses them later.
package netlab
