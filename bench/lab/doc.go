// Package lab tests the transport on a real kernel: hosts around a router whose port is a bottleneck, and a tc program
// that loses, doubles, corrupts and marks packets there (packages internal/netlab and impair). What simulation shows with
// virtual time has to hold with the kernel's queues, batches and scheduling too.
//
// It holds tests only. They need root; a short form runs with all other tests, the long one with `make lab-test`.
package lab
