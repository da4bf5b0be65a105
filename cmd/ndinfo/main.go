package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// errUnfit ends doctor when it found that ND cannot run: its report has said why.
var errUnfit = errors.New("ND cannot run here")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	err := newRoot().ExecuteContext(ctx)
	switch {
	case err == nil:
		return
	case !errors.Is(err, errUnfit):
		fmt.Fprintln(os.Stderr, "ndinfo:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(2)
	}
	os.Exit(1)
}

func newRoot() *cobra.Command {
	var asJSON bool
	root := &cobra.Command{
		Use:   "ndinfo",
		Short: "List adapters: driver, queues, MTU, datapath and limits",
		Long: `ndinfo lists the adapters of this machine: what drives them, how their packets would move and why, and
the limits that programs meet. "ndinfo doctor" says what is in the way of ND, and how to remove it.

Exit status: 0 when ND can run, 1 when it cannot, 2 when ndinfo itself failed.`,
		Example: `  ndinfo                       a table of adapters
  ndinfo --json                the same for programs, with every limit
  sudo ndinfo doctor           examine every interface that has an address
  sudo ndinfo doctor eth0      examine one
  source <(ndinfo completion bash)`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := ndhealth.Adapters()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			renderAdapters(cmd.OutOrStdout(), list)
			return nil
		},
	}
	root.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON instead of tables")
	root.AddCommand(newDoctor(&asJSON))
	return root
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
