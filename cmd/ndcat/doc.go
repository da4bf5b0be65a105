// Command ndcat moves a file or standard input to another machine through RDMA, and verifies it with a hash.
package main
