// Package ports shares the ND ports and the well-known UDP port of an address among the processes of a machine, without a daemon and
// without files. It uses abstract Unix sockets. The kernel keeps their names unique in a network namespace, and removes them with the
// process. It passes packets from one process to another without knowing their meaning.
package ports
