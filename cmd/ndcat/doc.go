// Command ndcat copies a file or standard input to another machine by RDMA, and verifies the copy with a hash.
package main
