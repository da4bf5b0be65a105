package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/nd"
)

// errSilent ends a run in which nobody answered: the statistics have said so.
var errSilent = errors.New("no answer")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	err := newRoot().ExecuteContext(ctx)
	switch {
	case err == nil:
		return
	case errors.Is(err, errSilent):
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "ndping:", strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(2)
}

// options are the flags.
type options struct {
	listen   bool
	from     string
	datapath nd.Datapath
	udpPort  uint16
	count    int
	interval time.Duration
	patience time.Duration
	sizes    string
	poll     bool
	quiet    bool
}

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ndping [-l] IP:PORT",
		Short: "Measure round trips of messages between two machines",
		Long: `ndping connects to an ndping that listens, sends messages of given sizes with RDMA Send, checks every byte
that comes back, and prints how long each took, and percentiles at the end. Nothing is lost for good on a
connection: a message counts as unanswered when its answer takes longer than --timeout, and the last line says
how many packets had to be sent again.

Exit status: 0 when there was an answer, 1 when there was none, 2 when something failed.`,
		Example: `  sudo ndping -l 192.0.2.7:7000                     answer
  sudo ndping 192.0.2.7:7000                        one message a second until interrupted
  sudo ndping 192.0.2.7:7000 -c 1000 -i 0 --poll    as fast as answers come
  sudo ndping 192.0.2.7:7000 -s 64-64K              sizes doubled from 64 bytes to 64 KiB, ten of each
  ndping -l 127.0.0.2:7000 & ndping --from 127.0.0.1 127.0.0.2:7000 -c 5`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return fmt.Errorf("%q is not IP:PORT (examples: 192.0.2.7:7000, [2001:db8::7]:7000)", args[0])
			}
			if o.listen {
				return answer(cmd.Context(), at, o, cmd.OutOrStdout())
			}
			sizes, err := parseSizes(o.sizes)
			if err != nil {
				return err
			}
			if o.count == 0 && len(sizes) > 1 {
				o.count = 10
			}
			return ping(cmd.Context(), at, o, sizes, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.listen, "listen", "l", false, "answer at this address instead of asking")
	f.StringVar(&o.from, "from", "", "local address (default: the one that the route gives)")
	f.TextVar(&o.datapath, "datapath", nd.DatapathAuto, "how packets move: auto, generic, native or udp")
	f.Uint16Var(&o.udpPort, "udp-port", nd.DefaultUDPPort, "UDP port of ND traffic, the same on both sides")
	f.IntVarP(&o.count, "count", "c", 0, "messages of each size (0: until interrupted, or 10 when there are several sizes)")
	f.DurationVarP(&o.interval, "interval", "i", time.Second, "time between messages")
	f.DurationVarP(&o.patience, "timeout", "W", 2*time.Second, "how long to wait for an answer")
	f.StringVarP(&o.sizes, "size", "s", "64", "bytes: one size, a list (64,4K), or a sweep by doubling (64-64K)")
	f.BoolVar(&o.poll, "poll", false, "poll for results instead of sleeping: lower latency, a busy processor")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print statistics only")
	return cmd
}

// maxSize is the largest message.
const maxSize = 1 << 20

// parseSizes understands 64, 64,4K and 64-64K.
func parseSizes(text string) (sizes []int, err error) {
	one := func(s string) (n int) {
		digits := strings.TrimRight(strings.ToUpper(s), "KM")
		shift := map[string]int{"": 0, "K": 10, "M": 20}
		n, failed := strconv.Atoi(digits)
		bits, known := shift[strings.ToUpper(s)[len(digits):]]
		if failed != nil || !known || n < minSize>>bits || n > maxSize>>bits {
			err = fmt.Errorf("--size: %q is not a size from %d to 1M", s, minSize)
		}
		return n << bits
	}
	if from, to, sweep := strings.Cut(text, "-"); sweep {
		first, last := one(from), one(to)
		if err != nil {
			return nil, err
		}
		for n := first; n <= last; n *= 2 {
			sizes = append(sizes, n)
		}
		if len(sizes) == 0 {
			err = fmt.Errorf("--size: %q goes down", text)
		}
		return sizes, err
	}
	for s := range strings.SplitSeq(text, ",") {
		sizes = append(sizes, one(s))
	}
	return sizes, err
}
