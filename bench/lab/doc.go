// Package lab tests the transport on a real kernel: hosts around a router whose port is a bottleneck, and a tc program
// that loses, doubles, corrupts and marks packets there (packages internal/netlab and impair). What simulation shows with
// virtual time has to hold with the kernel's queues, batches and scheduling too.
//
// Its tests hold what is right or wrong whatever else the machine does: bytes and marks. Its benchmarks hold figures:
// fairness, goodput, queues and latencies, the median of some rounds against a bound (`make lab-test`) or a floor (CI).
// Both need root.
package lab
