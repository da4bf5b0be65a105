// Package clock represents monotonic time and orders deadlines; no other package reads the machine's clock.
package clock
