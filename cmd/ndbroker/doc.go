// Command ndbroker opens AF_XDP for processes that may not, and passes them the descriptors.
package main
