// Command filecopy copies a file by RDMA Writes. Without -listen and -connect, both sides run in one process over loopback:
//
//	filecopy -listen 192.0.2.7:7003 -to copy
//	filecopy -connect 192.0.2.7:7003 -from file
package main
