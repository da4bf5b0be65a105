// Command echo sends messages to a server that sends them back. Without flags, both run in one process over loopback:
//
//	echo -listen 192.0.2.7:7001
//	echo -connect 192.0.2.7:7001
package main
