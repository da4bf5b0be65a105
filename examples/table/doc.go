// Command table is a key-value table that clients read by RDMA Reads: looking up a key takes no code of the server's program. Without flags,
// server and client run in one process over loopback:
//
//	table -listen 192.0.2.7:7002
//	table -connect 192.0.2.7:7002
package main
