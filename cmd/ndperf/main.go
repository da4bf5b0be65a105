package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The first signal cancels the run, which then cleans up; a second one finds the default handler and ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return
	}
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintln(os.Stderr, "ndperf:", oneLine(err))
	os.Exit(1)
}

// oneLine joins the parts of a joined error, so that whoever reads a log sees all of it.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
	return strings.Join(lines, "; ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ndperf",
		Short: "Measure RDMA over AF_XDP: latency and bandwidth of package nd",
		Long: `ndperf moves bytes by RDMA Write, RDMA Read and Send/Receive over AF_XDP, verifies every one of them,
and prints latency and bandwidth.

Start with "ndperf veth": it needs nothing but root, builds two network namespaces and a veth pair,
measures, compares with raw AF_XDP and kernel TCP, and leaves nothing behind. Without root, "ndperf loop"
does the same over plain UDP sockets on the loopback interface.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(newVeth(), newSweep(), newReportCommand(), newLoop(), newConn(), newServer(), newClient(), newAgent(), newValidate())
	return root
}
