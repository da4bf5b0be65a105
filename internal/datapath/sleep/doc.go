// Package sleep lets goroutines sleep until a socket has packets, and look for packets before that as long as it pays.
package sleep
