// Package lab tests the transport on a real kernel: hosts around a router with a bottleneck at a port, where a tc program drops,
// duplicates, corrupts and marks packets (packages internal/netlab and impair). It checks that results of the simulation also hold
// with the kernel's queues, batches and scheduling.
//
// Its tests check facts that do not depend on the load of the machine: bytes and marks. Its benchmarks check figures: fairness,
// goodput, queues and latencies. They compare the median of several rounds with a bound (`make lab-test`) or a floor (CI). Both
// need root.
package lab
