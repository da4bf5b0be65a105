// Command ndbroker opens AF_XDP sockets for processes without privileges, and passes them the descriptors.
package main
