// Command ndperf measures latency and bandwidth of package nd, between two namespaces that it creates (veth) or between machines
// (server and client).
package main
