// Package genetlink sends requests to the kernel's generic netlink families, such as ethtool, by name. It replaces requests of
// github.com/vishvananda/netlink v1.3.1. They send two bytes beyond a header that is shorter in Go than in the kernel. The kernel
// ignores these bytes, but they belong to other memory, which the race detector reports.
package genetlink
