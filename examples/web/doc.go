// Command web serves HTTP over ND and over TCP, on the same address. Its client uses ND if the server can be reached by ND, and TCP otherwise.
// It runs both in one process over loopback.
package main
