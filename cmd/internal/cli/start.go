package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/internal/buildinfo"
)

// Exit statuses of every command.
const (
	OK     = 0
	Failed = 1 // the error, or the output if the error wraps ErrTold, gives the reason
	Misuse = 2 // the command line is wrong, and nothing was done
)

// Main runs a command with the arguments of the process, and exits. The first SIGINT or SIGTERM cancels the context of the command,
// which then cleans up. A second one ends the process at once.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	root.SetOut(&stdout{file: os.Stdout})
	status := Run(ctx, root, os.Stderr)
	stop()
	os.Exit(status)
}

// Root prepares a command for Run, which prints errors, and returns it.
func Root(root *cobra.Command) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.Version = buildinfo.Read().String()
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	fitHelp(root)
	addManual(root)
	return root
}

// Run runs a command that Root prepared, and returns its exit status. An error, even of incomplete output, is one line on stderr.
// An error before the command itself runs is Misuse, except host names without an address. An error of Usagef is Misuse, too.
func Run(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	began := false
	mark(root, &began)
	at, err := root.ExecuteContextC(ctx)
	if unwritten := Unwritten(root.OutOrStdout()); unwritten != nil {
		began = true // help and version do not run the command
		if err == nil || errors.Is(err, ErrTold) {
			err = unwritten
		}
	}
	var wrong *usageError
	var unknown *net.DNSError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &wrong) || !began && !errors.As(err, &unknown):
		fmt.Fprintf(stderr, "%s: %s (%s --help shows how)\n", root.Name(), inWords(at, err), at.CommandPath())
		return Misuse
	case errors.Is(err, ErrTold):
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)):
		fmt.Fprintf(stderr, "%s: interrupted\n", root.Name())
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted: %s\n", root.Name(), OneLine(err))
	default:
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), OneLine(err))
	}
	return Failed
}

// mark makes every command of the tree record that it runs. Arguments and flags were accepted before.
func mark(cmd *cobra.Command, began *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		mark(sub, began)
	}
}
