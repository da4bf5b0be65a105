// Command secret sends a message over a connection that a shared secret encrypts. It needs no certificates: each side accepts a peer that
// knows the secret. It runs both sides in one process over loopback.
package main
