package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/nd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ndcat:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	listen, send bool
	from         string
	datapath     nd.Datapath
	udpPort      uint16
}

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ndcat IP:PORT [FILE] | ndcat -l IP:PORT",
		Short: "Move a file or standard input to another machine through RDMA",
		Long: `ndcat sends FILE, or standard input, to an ndcat that listens, which writes it to its standard output. Bytes
go by RDMA Write into the listener's memory, or by Send. Both sides hash what they see, and both exit with
status 0 only if the hashes agree and everything was written; the sender waits for that.`,
		Example: `  sudo ndcat -l 192.0.2.7:7000 > copy               on one machine
  sudo ndcat 192.0.2.7:7000 disk.img                on the other
  tar c . | sudo ndcat 192.0.2.7:7000 --send`,
		Args:          cobra.RangeArgs(1, 2),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return fmt.Errorf("%q is not IP:PORT (examples: 192.0.2.7:7000, [2001:db8::7]:7000)", args[0])
			}
			if o.listen {
				if len(args) > 1 {
					return errors.New("a listener writes to standard output: redirect it to a file")
				}
				return receive(cmd.Context(), at, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			in, size := cmd.InOrStdin(), int64(-1)
			if len(args) > 1 {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
				if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
					size = info.Size()
				}
			}
			return send(cmd.Context(), at, o, in, size, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.listen, "listen", "l", false, "take what one sender sends")
	f.BoolVar(&o.send, "send", false, "move the bytes by Send instead of RDMA Write")
	f.StringVar(&o.from, "from", "", "local address (default: the one that the route gives)")
	f.TextVar(&o.datapath, "datapath", nd.DatapathAuto, "how packets move: auto, generic, native or udp")
	f.Uint16Var(&o.udpPort, "udp-port", nd.DefaultUDPPort, "UDP port of ND traffic, the same on both sides")
	return cmd
}

// The memory of either side is slots that are filled and emptied in turn: a header, which always comes by Send, and the bytes
// of a chunk, which come with it or by a Write before it. The receiver acknowledges each with a byte when it has written the
// chunk out, so that a slow reader holds the sender up without a time-out.
const (
	slots     = 16
	chunk     = 256 << 10
	headerLen = 8 // kind, three zeros, length of the chunk
	slotLen   = headerLen + chunk
	acks      = slots * slotLen // where the sender's memory has a byte for each slot
)

// Kinds of chunks, and the receiver's answers.
const (
	kindData = 'd'
	kindEnd  = 'e' // the chunk is the number of bytes and their SHA-256
	ackTaken = 't'
	ackSame  = 's' // to the end: all bytes arrived
	ackOther = 'o' // to the end: not those that were sent
)

// open makes the adapter that --from asks for, nil when it does not.
func open(o *options) (*nd.Adapter, error) {
	if o.from == "" {
		return nil, nil
	}
	local, err := netip.ParseAddr(o.from)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return nd.OpenAdapter(nd.AdapterConfig{Address: local, UDPPort: o.udpPort, Datapath: o.datapath})
}
