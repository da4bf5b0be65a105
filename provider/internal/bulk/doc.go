// Package bulk decides which packets of a connection leave by the bulk lane: a second UDP port, at a socket whose kernel carries runs of packets
// (PROTOCOL §11.1). It is a function of sizes, numbers and times.
package bulk
