//go:build nonats

package main

// natsCases are none: the NATS server takes as long to compile as most programs together, and `make check` leaves it out.
func natsCases() []program { return nil }
