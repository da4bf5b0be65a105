package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

// options are the values of the flags.
type options struct {
	net  cli.Network
	send bool
	json bool

	newSecret bool
}

// done is the JSON object at the end of a transfer.
type done struct {
	Event    string  `json:"event"` // done
	Role     string  `json:"role"`  // sender or receiver
	Bytes    uint64  `json:"bytes"`
	Seconds  float64 `json:"seconds"` // from the first byte
	SHA256   string  `json:"sha256"`  // of the transferred bytes
	Datapath string  `json:"datapath"`
}

// waiting is the JSON object when a receiver listens.
type waiting struct {
	Event    string `json:"event"` // waiting
	Address  string `json:"address"`
	Datapath string `json:"datapath"`
}

// told prints an object if --json is set.
func told(stderr io.Writer, o *options, object any) {
	if o.json {
		(&cli.Events{To: stderr, JSON: true}).Say(object, "")
	}
}

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ndcat HOST:PORT [FILE] | ndcat -l HOST:PORT",
		Short: "Move a file or standard input to another machine through RDMA",
		Long: `ndcat sends FILE, or standard input, to an ndcat that listens, which writes it to its standard output. Bytes
go by RDMA Write into the listener's memory, or by Send. Both sides hash the bytes. They exit with
status 0 only if the hashes agree and the receiver wrote all bytes. The sender waits for this, and prints why the
receiver could not write. The exit status is 1 after a failure, and 2 for a wrong command line.

With --json each line on standard error is an object: {"event":"waiting"} of a listener, and {"event":"done"} with
bytes, seconds and sha256 at the end.`,
		Example: `  sudo ndcat -l 192.0.2.7:7000 > copy               on one machine
  sudo ndcat 192.0.2.7:7000 disk.img                on the other
  tar c . | sudo ndcat 192.0.2.7:7000 --send
  ndcat -l 192.0.2.7:7000 --broker /run/ndbroker/eth0 > copy
  ndcat --new-secret > secret                       a file for --tls-secret of both`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.newSecret {
				return cli.WriteSecret(cmd.OutOrStdout())
			}
			if err := o.net.RefuseAsker(cmd, "send"); err != nil {
				return err
			}
			if o.net.Listens && len(args) > 1 {
				return cli.Usagef("a listener writes to standard output: redirect it to a file")
			}
			if o.net.Listens && cli.Closed(os.Stdout) {
				return errors.New("standard output is closed, and the received bytes go there: redirect it to a file")
			}
			if o.net.Listens {
				return receive(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if len(args) == 1 && cli.Closed(os.Stdin) {
				return errors.New("standard input is closed: name a file, or redirect standard input")
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
	o.net.Register(cmd, 2, "receive from one sender")
	transfer := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case !o.newSecret:
			return transfer(cmd, args)
		case len(args) > 0:
			return cli.Usagef("%q is one argument too many: --new-secret takes none, and writes to standard output", args[0])
		}
		return nil
	}
	cmd.Flags().BoolVar(&o.newSecret, "new-secret", false, "write a new secret for --tls-secret to standard output, and end; a file then has mode 0600")
	cmd.Flags().BoolVar(&o.send, "send", false, "move the bytes by Send instead of RDMA Write")
	cmd.Flags().BoolVar(&o.json, "json", false, "report progress on standard error as JSON, one object a line")
	return cli.Root(cmd)
}

// The memory of each side is a ring of slots. A slot has a header, which always arrives by Send, and a chunk, which arrives with
// the header or by an earlier Write. The receiver acknowledges each slot with a byte after it has written the chunk out, so a slow
// reader delays the sender without a time-out.
const (
	slots     = 16
	chunk     = 256 << 10
	headerLen = 8 // kind, three zero bytes, length of the chunk
	slotLen   = headerLen + chunk
	acks      = slots * slotLen // offset of the answers to each slot in the sender's memory
	ackLen    = 256             // length of one answer
)

// Kinds of chunks, and kinds of answers.
const (
	kindData = 'd'
	kindEnd  = 'e' // the chunk is the number of bytes and their SHA-256
	ackTaken = 't'
	ackSame  = 's' // answer to kindEnd: all bytes arrived
	ackOther = 'o' // answer to kindEnd: the bytes differ
	ackWhy   = 'w' // the bytes could not be written; the reason follows
)
