package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// errUnfit is the result of doctor if ND cannot run. The report contains the reason.
var errUnfit = fmt.Errorf("ND cannot run here: %w", cli.ErrTold)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	var asJSON bool
	root := &cobra.Command{
		Use:   "ndinfo",
		Short: "List adapters: driver, queues, MTU, datapath and limits",
		Long: `ndinfo lists the adapters that this machine can have: driver, queues, MTU, datapath and its reason, and limits for
programs. It also lists interfaces that are down, which can have none. "ndinfo doctor" says what keeps ND from running
and names the command that helps. "ndinfo bugreport" collects facts for a report of a fault.

Exit status: 0 when ND can run, 1 when it cannot or something failed, 2 for a wrong command line.`,
		Example: `  ndinfo                       a table of adapters
  ndinfo --json                the same for programs, with every limit
  sudo ndinfo doctor           examine every interface that has an address
  sudo ndinfo doctor eth0      examine one
  source <(ndinfo completion bash)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := ndhealth.Adapters()
			if err != nil {
				return err
			}
			l := listing{Adapters: append([]ndhealth.Adapter{}, list...), Down: []ndhealth.Interface{}}
			if down, err := ndhealth.Down(); err != nil {
				l.Unseen = append(l.Unseen, unseenDown(err))
			} else {
				l.Down = append(l.Down, down...)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), l)
			}
			renderListing(cmd.OutOrStdout(), &l, cli.Width(cmd.OutOrStdout()))
			return nil
		},
	}
	root.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON instead of tables")
	root.AddCommand(newDoctor(&asJSON), newBugreport(&asJSON))
	return cli.Root(root)
}

// listing is the JSON output of ndinfo. Its lists are never null.
type listing struct {
	Adapters []ndhealth.Adapter   `json:"adapters"`
	Down     []ndhealth.Interface `json:"down"`             // interfaces without an adapter, because they are down
	Unseen   []string             `json:"unseen,omitempty"` // facts that could not be read, and why
}

// unseenDown explains why it is unknown which interfaces are down.
func unseenDown(err error) string {
	return "which interfaces are down was not looked at: " + cli.OneLine(err)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
