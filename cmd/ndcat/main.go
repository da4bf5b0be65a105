package main

import (
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/internal/cli"
)

func main() { cli.Main(newRoot()) }

// options are the flags.
type options struct {
	net  cli.Network
	send bool
}

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ndcat HOST:PORT [FILE] | ndcat -l HOST:PORT",
		Short: "Move a file or standard input to another machine through RDMA",
		Long: `ndcat sends FILE, or standard input, to an ndcat that listens, which writes it to its standard output. Bytes
go by RDMA Write into the listener's memory, or by Send. Both sides hash what they see, and both exit with
status 0 only if the hashes agree and everything was written; the sender waits for that. The status is 1 when
that failed, and 2 for a wrong command line.`,
		Example: `  sudo ndcat -l 192.0.2.7:7000 > copy               on one machine
  sudo ndcat 192.0.2.7:7000 disk.img                on the other
  tar c . | sudo ndcat 192.0.2.7:7000 --send
  ndcat -l 192.0.2.7:7000 --broker /run/ndbroker/eth0 > copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.net.RefuseAsker(cmd, "send"); err != nil {
				return err
			}
			if o.net.Listens && len(args) > 1 {
				return cli.Usagef("a listener writes to standard output: redirect it to a file")
			}
			if o.net.Listens {
				return receive(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if len(args) == 1 {
				return send(cmd.Context(), o, cmd.InOrStdin(), -1, cmd.ErrOrStderr())
			}
			f, size, err := cli.Open(args[1], "name a file that can be read, or none for standard input")
			if err != nil {
				return err
			}
			defer f.Close()
			return send(cmd.Context(), o, f, size, cmd.ErrOrStderr())
		},
	}
	o.net.Register(cmd, 2, "take what one sender sends")
	cmd.Flags().BoolVar(&o.send, "send", false, "move the bytes by Send instead of RDMA Write")
	return cli.Root(cmd)
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
