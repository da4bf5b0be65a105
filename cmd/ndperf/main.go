package main

import (
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ndperf",
		Short: "Measure RDMA over AF_XDP: latency and bandwidth of package nd",
		Long: `ndperf moves bytes by RDMA Write, RDMA Read and Send/Receive over AF_XDP, verifies every one of them,
and prints latency and bandwidth.

Start with "ndperf veth": it needs only root, builds two network namespaces and a veth pair,
measures, compares with raw AF_XDP and kernel TCP, and leaves nothing behind. Without root, "ndperf loop"
does the same over plain UDP sockets on the loopback interface.

Exit status: 0, 1 when something failed or missed its bounds, 2 for a wrong command line.`,
		Example: `  sudo ndperf veth                                     everything, about three minutes
  ndperf loop --duration 300ms                         a quick look without root
  sudo ndperf apps                                     ordinary Go programs, over ND and over TCP
  ndperf register                                      what registering memory costs
  sudo ndperf server --addr 192.0.2.7:9000             on one machine
  sudo ndperf client --addr 192.0.2.7:9000             on the other
  sudo ndperf sweep && ndperf report ndperf-sweep.json  tables and plots as one page
  source <(ndperf completion bash)`,
	}
	root.AddCommand(newVeth(), newSweep(), newReportCommand(), newLoop(), newConn(), newRegister(), newApps(), newServer(), newClient(), newBars(), newAgent(), newBusy(), newValidate())
	return cli.Root(root)
}
