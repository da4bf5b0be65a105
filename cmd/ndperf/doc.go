// Command ndperf measures latency and bandwidth of package nd: between two namespaces that it builds itself (veth), or
// between machines that exist (server and client).
package main
