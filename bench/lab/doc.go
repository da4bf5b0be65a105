// Package lab tests the transport on a real kernel: hosts around a router whose port is a bottleneck, and a tc program
// that loses, doubles, corrupts and marks packets there (packages internal/netlab and impair). Results of the simulation,
// in virtual time, have to hold with the kernel's queues, batches and scheduling too.
//
// Its tests check facts that do not depend on the load of the machine: bytes and marks. Its benchmarks check figures:
// fairness, goodput, queues and latencies. They compare the median of some rounds with a bound (`make lab-test`) or a
// floor (CI). Both need root.
package lab
