// Package ports shares the ND ports and the well-known UDP port of an address among the processes of a machine, without a daemon and without
// files: by abstract Unix sockets, whose names the kernel keeps unique in a network namespace and removes with the process. It does not know
// what the packets mean that it hands from one process to another.
package ports
