package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// decryptFlags are the values of the flags of decrypt.
type decryptFlags struct {
	keys, file string
}

func newDecrypt() *cobra.Command {
	f := &decryptFlags{}
	cmd := &cobra.Command{
		Use:   "decrypt --keys KEYLOG -w FILE CAPTURE",
		Short: "Open the encrypted packets of a capture for Wireshark",
		Long: `decrypt copies a pcapng capture, and replaces the packets of encrypted connections by packets in plain, which the plugin
for Wireshark decodes (docs/OPERATING.md#captures). KEYLOG is the file that tls.Config.KeyLogWriter of one of the two programs wrote. The
capture must have the beginning of the connections. Packets that do not open stay as they are, and are counted with the reason.

Exit status: 0, 1 when something failed, or when the capture has encrypted packets and none opened, 2 for a wrong command line.`,
		Example: `  ndstat decrypt --keys keys.log -w plain.pcapng x.pcapng
  ndstat decrypt --keys keys.log -w - - < x.pcapng | wireshark -k -i -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.keys, "keys", "", "key log")
	fl.StringVarP(&f.file, "write", "w", "", "file to write, - for standard output")
	_ = cmd.MarkFlagRequired("keys") // registered above, which excludes the only error
	_ = cmd.MarkFlagRequired("write")
	return cmd
}

// errNothingOpened means that a capture and a key log do not belong together.
var errNothingOpened = errors.New("no encrypted packet opened: give the key log of a program of the capture, which must have the beginning of its connections")

// run decrypts the capture and prints the number of packets.
func (f *decryptFlags) run(capture string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if err := checkOutput(f.file, stdout); err != nil {
		return err
	}
	keys, err := os.Open(f.keys)
	if err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	defer keys.Close()
	in := stdin
	if capture != "-" {
		file, err := os.Open(capture)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	out, err := openOutput(f.file, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if same(out, in) {
		return cli.Usagef("-w names the capture itself: name another file")
	}
	sum, err := ndcapture.Decrypt(out, in, keys)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d of %d packets decrypted\n", sum.Decrypted, sum.Packets)
	for _, kept := range []struct {
		n   uint64
		why string
	}{
		{sum.NoHandshake, "the capture does not have the beginning of their connection"},
		{sum.NoSecret, "the key log does not have their connection"},
		{sum.Truncated, "the capture has only a part of them"},
		{sum.WrongTag, "no key opens them: damaged, forged, or after a long gap"},
	} {
		if kept.n > 0 {
			fmt.Fprintf(stderr, "%d stay encrypted: %s\n", kept.n, kept.why)
		}
	}
	if sum.Decrypted == 0 && sum.Kept() > 0 {
		return errNothingOpened
	}
	return nil
}

// same reports whether the output is the file that is read, which would be lost.
func same(out io.Writer, in io.Reader) bool {
	to, isFile := out.(*fresh)
	from, isFile2 := in.(*os.File)
	if !isFile || !isFile2 {
		return false
	}
	a, err := to.Stat()
	b, err2 := from.Stat()
	return err == nil && err2 == nil && os.SameFile(a, b)
}
