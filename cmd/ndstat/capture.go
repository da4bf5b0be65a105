package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// captureFlags are the values of the flags of capture.
type captureFlags struct {
	file     string
	duration time.Duration
	request  ndinspect.CaptureRequest
}

func newCapture() *cobra.Command {
	f := &captureFlags{}
	cmd := &cobra.Command{
		Use:   "capture -w FILE [SOCKET|PID]",
		Short: "Capture the packets of a running process for Wireshark",
		Long: `capture writes the packets of a process with an ND adapter as pcapng, with what the transport knew about
each (docs/OPERATING.md#captures), until it is interrupted. The process never waits for the capture: packets for which there is
no room are lost, and counted. The capture slows the process, so its other figures differ from figures without a capture.
ndstat shows that a capture is running.

Exit status: 0, also after an interruption, 1 when something failed, 2 for a wrong command line.`,
		Example: `  ndstat capture -w x.pcapng                   the only process there is, until Ctrl-C
  ndstat capture -w x.pcapng --duration 5s 4711
  ndstat capture -w x.pcapng --count 1000 --snap 128 /run/ndxdp/4711.sock
  ndstat capture -w - | wireshark -k -i -`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return ndinspect.Sockets(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.duration < 0 || f.request.SnapLength < 0 {
				return cli.Usagef("--duration %v and --snap %d must not be negative", f.duration, f.request.SnapLength)
			}
			path, err := findSocket(args, live())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if f.duration > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, f.duration)
				defer cancel()
			}
			return f.run(ctx, path, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.file, "write", "w", "", "file to write, - for standard output")
	fl.DurationVar(&f.duration, "duration", 0, "how long to capture (default: until interrupted)")
	fl.Uint64Var(&f.request.MaxPackets, "count", 0, "how many packets to capture (default: all)")
	fl.IntVar(&f.request.SnapLength, "snap", 0, "bytes of each packet (default: all)")
	_ = cmd.MarkFlagRequired("write") // registered above, which excludes the only error
	return cmd
}

// run captures packets and prints their number.
func (f *captureFlags) run(ctx context.Context, socket string, stdout, stderr io.Writer) (err error) {
	if err := checkOutput(f.file, stdout); err != nil {
		return err
	}
	c, err := ndinspect.Dial(socket) // before the file is emptied
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	out, err := openOutput(f.file, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum, err := c.Capture(ctx, f.request, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d packets captured, %d lost, %d bytes\n", sum.Written, sum.Lost, sum.Bytes)
	return nil
}

// live returns the sockets whose process runs, or may run under another user.
func live() []string {
	return slices.DeleteFunc(ndinspect.Sockets(), func(path string) bool {
		c, err := ndinspect.Dial(path)
		if err == nil {
			_ = c.Close() // nothing was requested
		}
		return errors.Is(err, ndinspect.ErrGone)
	})
}

// findSocket returns the socket of the process named in args, or the only socket.
func findSocket(args, sockets []string) (string, error) {
	found := sockets
	if len(args) > 0 {
		if _, err := strconv.Atoi(args[0]); err != nil {
			return args[0], nil
		}
		found = nil
		for _, path := range sockets {
			if pid, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".sock"), "-"); pid == args[0] {
				found = append(found, path)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", cli.Usagef("there are several: name one of %s", strings.Join(found, ", "))
	case len(args) > 0:
		return "", fmt.Errorf("process %s has no ND adapter open, or hides it: ndstat lists the processes that show one", args[0])
	}
	return "", errNobody
}
