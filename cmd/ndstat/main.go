package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

func main() { cli.Main(newRoot()) }

// flags are the values of the flags of ndstat.
type flags struct {
	once, json bool
	interval   time.Duration
	pid        int
	peer       netip.Addr
	sockets    []string
}

const minInterval = 100 * time.Millisecond

func newRoot() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "ndstat",
		Short: "Show the ND connections of running processes, and what limits each",
		Long: `ndstat shows a live table of the ND connections of all processes of its own user; root sees those of all users.
Programs need no code for this, and can forbid it (nd.AdapterConfig.Inspect).

On a terminal that is too narrow for the table each connection has several lines, with the same names. In a pipe each
connection has one line.

DATAPATH is how packets move, and whether the kernel or the driver copies them; --json says why.

LIMITED BY is what kept a connection from sending more for the largest share of the last interval: application
(nothing was posted), receive (the peer has no receive posted), read (outbound read limit), fabric (the window for
the path), endpoint (the window for the peer), ring (no transmit frames), cpu (the engine was busy).

Exit status: 0, also after an interruption, 1 when nobody answers, 2 for a wrong command line.`,
		Example: `  ndperf loop                          in one terminal, and in another:
  ndstat                               a table that is renewed every second
  ndstat --once                        one table, over one interval
  ndstat --once --json | jq .          everything that there is to know, one reply a line
  ndstat --peer 192.0.2.7 --pid 4711   only some of them
  ndstat capture -w FILE 4711          its packets, for Wireshark
  ndstat decrypt --keys KEYLOG -w FILE CAPTURE`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.once, "once", false, "print one table, or one round of replies with --json, and end")
	fl.BoolVar(&f.json, "json", false, "print what the processes answer as JSON, one reply a line")
	fl.DurationVar(&f.interval, "interval", time.Second, fmt.Sprintf("time from one table to the next, at least %v", minInterval))
	fl.IntVar(&f.pid, "pid", 0, "only this process")
	fl.Var(cli.Addr(&f.peer), "peer", "only connections with this address")
	fl.StringSliceVar(&f.sockets, "socket", nil, "only these sockets (default: all in $XDG_RUNTIME_DIR/ndxdp, without that variable in /run/ndxdp or /run/user/UID/ndxdp; for root those of all users)")
	cmd.AddCommand(newCapture(), newDecrypt())
	return cli.Root(cmd)
}

func run(ctx context.Context, f *flags, stdout, stderr io.Writer) error {
	if f.interval < minInterval {
		return cli.Usagef("--interval %v is too short: choose at least %v", f.interval, minInterval)
	}
	w := newWatch(f, ndinspect.Request{Peer: f.peer})
	w.redraws = !f.once && cli.IsTerminal(stdout)
	if err := w.look(ctx); err != nil {
		return err
	}
	w.tellProblems(stderr)
	if f.json && f.once {
		return w.writeJSON(stdout)
	}
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		if f.json {
			if err := w.writeJSON(stdout); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.look(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !f.json {
			if w.redraws {
				fmt.Fprint(stdout, "\x1b[H\x1b[2J") // moves the cursor home and clears the screen
			}
			w.render(stdout, cli.Width(stdout))
			if err := cli.Unwritten(stdout); err != nil {
				return err
			}
		}
		w.tellProblems(stderr)
		if f.once {
			return nil
		}
	}
}

// writeJSON prints each reply as a line.
func (w *watch) writeJSON(out io.Writer) error {
	for _, r := range w.now {
		line, err := json.Marshal(r)
		if err == nil {
			_, err = io.WriteString(out, cli.PrintableJSON(string(line))+"\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errNobody means that no process can be shown.
var errNobody = errors.New("no process of this user has an ND adapter open that can be inspected: only root sees the processes of other users, " +
	"and programs can forbid inspection (nd.AdapterConfig.Inspect)")
