// Package genetlink asks the kernel's generic netlink families, such as ethtool, by name. It exists because the requests of
// github.com/vishvananda/netlink v1.3.1 send two bytes that lie behind a header which is shorter in Go than in the kernel: harmless on
// the wire, where they are reserved, and yet memory of somebody else, which the race detector sees.
package genetlink
