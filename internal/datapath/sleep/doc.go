// Package sleep lets goroutines sleep until a socket has packets. Before that they poll for packets as long as polling pays.
package sleep
