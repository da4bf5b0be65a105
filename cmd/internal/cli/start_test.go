package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type contextualError struct{}

func (contextualError) Error() string { return "first\nsecond\n" }

func TestOneLine(t *testing.T) {
	if got := OneLine(contextualError{}); got != "first; second" {
		t.Errorf("OneLine gives %q", got)
	}
}

// TestRunTellsMisuseFromFailure: errors before the command runs, and errors of Usagef, are misuse. All other errors are failures.
func TestRunTellsMisuseFromFailure(t *testing.T) {
	for _, c := range []struct {
		args   string
		fails  error
		end    bool // the context ends, as after a signal
		status int
		said   string
	}{
		{"do", nil, false, OK, ""},
		{"do", contextualError{}, false, Failed, "tool: first; second\n"},
		{"do", fmt.Errorf("unfit: %w", ErrTold), false, Failed, ""},
		{"do", context.Canceled, true, Failed, "tool: interrupted\n"},
		{"do", errors.New("it broke"), true, Failed, "tool: interrupted: it broke\n"},
		{"do --at " + strings.Repeat("a", 64), nil, false, Failed, "tool: invalid argument " + strconv.Quote(strings.Repeat("a", 64)) + ` for "--at" flag: no address of ` + strconv.Quote(strings.Repeat("a", 64)) + ": lookup " + strings.Repeat("a", 64) + ": no such host\n"},
		{"do", Usagef("--n: %d is too many", 3), false, Misuse, "tool: --n: 3 is too many (tool do --help shows how)\n"},
		{"do --at x/", nil, false, Misuse, `tool: invalid argument "x/" for "--at" flag: it is neither an IP address nor the name of a host (examples: 192.0.2.7, 2001:db8::7, node7) (tool do --help shows how)` + "\n"},
		{"do --wrong", nil, false, Misuse, "tool: unknown flag: --wrong (tool do --help shows how)\n"},
		{"do more", nil, false, Misuse, `tool: unknown command "more" (tool do --help shows how)` + "\n"},
		{"do --n x", nil, false, Misuse, `tool: invalid argument "x" for "--n" flag: it is no whole number (tool do --help shows how)` + "\n"},
		{"do --port -1", nil, false, Misuse, `tool: invalid argument "-1" for "--port" flag: it is no whole number from 0 on (tool do --help shows how)` + "\n"},
		{"do --port 65536", nil, false, Misuse, `tool: invalid argument "65536" for "--port" flag: it is too large, or too small (tool do --help shows how)` + "\n"},
		{"do --long 5", nil, false, Misuse, `tool: invalid argument "5" for "--long" flag: it is no duration (examples: 300ms, 2s, 1m) (tool do --help shows how)` + "\n"},
		{"do --n 1 --long 1s", nil, false, Misuse, "tool: --long and --n exclude each other: leave one out (tool do --help shows how)\n"},
		{"doo", nil, false, Misuse, `tool: unknown command "doo": did you mean do? (tool --help shows how)` + "\n"},
		{"fly", nil, false, Misuse, `tool: unknown command "fly" (tool --help shows how)` + "\n"},
	} {
		var at netip.Addr
		do := &cobra.Command{Use: "do", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return c.fails }}
		do.Flags().Var(Addr(&at), "at", "where")
		do.Flags().Int("n", 0, "how many")
		do.Flags().Uint16("port", 0, "which")
		do.Flags().Duration("long", 0, "how long")
		do.MarkFlagsMutuallyExclusive("n", "long")
		root := Root(&cobra.Command{Use: "tool"})
		root.AddCommand(do)
		root.SetArgs(strings.Fields(c.args))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		if c.end {
			end()
		}
		var said strings.Builder
		if status := Run(ctx, root, &said); status != c.status || said.String() != c.said {
			t.Errorf("%s, %v: status %d, %q; want %d, %q", c.args, c.fails, status, said.String(), c.status, c.said)
		}
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	_, _, err := Open("/no/such/file", "name another")
	if !errors.Is(err, os.ErrNotExist) || !strings.HasSuffix(err.Error(), "no such file or directory: name another") {
		t.Errorf("%v", err)
	}
}
