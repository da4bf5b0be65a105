package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

// errSilent means that no answer arrived. The statistics show it.
var errSilent = fmt.Errorf("no answer: %w", cli.ErrTold)

// options are the values of the flags.
type options struct {
	net      cli.Network
	count    int
	interval time.Duration
	patience time.Duration
	sizes    []string
	poll     bool
	quiet    bool
	json     bool

	reconnect bool
}

// seconds is a flag with a number of seconds, as of ping, or a duration with a unit.
type seconds struct{ to *time.Duration }

func (s seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, plain := strconv.ParseFloat(text, 64); plain == nil && n*float64(time.Second) <= math.MaxInt64 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("it is not a duration (examples: 0.2, 5ms, 2s)")
	}
	*s.to = d
	return nil
}

func (s seconds) String() string {
	if s.to == nil {
		return ""
	}
	return s.to.String()
}

func (seconds) Type() string { return "time" }

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ndping [-l] HOST:PORT",
		Short: "Measure round trips of messages between two machines",
		Long: `ndping connects to an ndping that listens, sends messages of given sizes with RDMA Send, checks every byte
that comes back, and prints how long each took, and percentiles at the end. A connection
loses no message for good. A message counts as unanswered when its answer takes longer than --timeout. The last line
says how many packets were retransmitted.

With --json each line is an object. Its field "event" is connected, answer, timeout, lost, summary (of each size), or
packets (at the end). The events of a listener are answering, peer and left. Times are in microseconds.

Exit status: 0 when there was an answer, 1 when there was none or something failed, 2 for a wrong command line.`,
		Example: `  sudo ndping -l 192.0.2.7:7000                     answer
  sudo ndping 192.0.2.7:7000                        one message a second until interrupted
  sudo ndping 192.0.2.7:7000 -c 1000 -i 0 --poll    as fast as answers come
  sudo ndping 192.0.2.7:7000 -i 0.2 --reconnect     five a second, through restarts of the other side
  sudo ndping 192.0.2.7:7000 -s 64-64K              sizes doubled from 64 bytes to 64 KiB, ten of each
  ndping -l 192.0.2.7:7000 --broker /run/ndbroker/eth0
  ndping -l 127.0.0.2:7000 & ndping --from 127.0.0.1 127.0.0.2:7000 -c 5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.net.RefuseAsker(cmd, "count", "interval", "timeout", "reconnect", "size", "quiet"); err != nil {
				return err
			}
			if o.net.Listens {
				return answer(cmd.Context(), o, cmd.OutOrStdout())
			}
			sizes, err := o.check()
			if err != nil {
				return err
			}
			if o.count == 0 && len(sizes) > 1 {
				o.count = 10
			}
			return ping(cmd.Context(), o, sizes, cmd.OutOrStdout())
		},
	}
	o.net.Register(cmd, 1, "answer at this address instead of asking")
	f := cmd.Flags()
	f.IntVarP(&o.count, "count", "c", 0, "messages of each size (0: until interrupted, or 10 when there are several sizes)")
	o.interval, o.patience = time.Second, 2*time.Second
	f.VarP(seconds{&o.interval}, "interval", "i", "time between messages: seconds such as 0.2, or 5ms")
	f.VarP(seconds{&o.patience}, "timeout", "W", "time to wait for an answer: seconds such as 0.2, or 5ms")
	f.BoolVar(&o.reconnect, "reconnect", false, "connect again when the connection is lost or cannot be made, until interrupted")
	f.StringSliceVarP(&o.sizes, "size", "s", []string{"64"}, "bytes: one size, a list (64,4K), or a sweep by doubling (64-64K)")
	f.BoolVar(&o.poll, "poll", false, "poll for results instead of sleeping: lower latency, a busy processor")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print statistics only")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
	return cli.Root(cmd)
}

// check checks the flags and returns the sizes.
func (o *options) check() ([]int, error) {
	switch {
	case o.count < 0:
		return nil, cli.Usagef("--count %d is negative: choose 0 for no end, or more", o.count)
	case o.patience == 0:
		return nil, cli.Usagef("--timeout 0 leaves no time for an answer: choose more, such as 5ms")
	case len(o.sizes) == 0:
		return nil, cli.Usagef("--size is empty: name at least one size (examples: 64, 4K, 64-64K)")
	}
	return cli.Sizes("size", o.sizes, minSize, maxSize, "8 to 1M")
}

// maxSize is the size of the largest message.
const maxSize = 1 << 20
