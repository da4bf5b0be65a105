// Package bulk decides which packets of a connection leave by the bulk path: a second UDP port, on a socket whose kernel sends GSO
// batches (PROTOCOL §11.1). It is a function of sizes, numbers and times.
package bulk
