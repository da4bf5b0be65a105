//go:build nonats

package main

// natsCases is empty: compiling the NATS server takes as long as most programs together, so `make check` leaves it out.
func natsCases() []program { return nil }
