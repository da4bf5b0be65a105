package main

import (
	"fmt"
	"io"
	"os"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// checkOutput refuses to write packets to a terminal.
func checkOutput(name string, stdout io.Writer) error {
	if name == "-" && cli.IsTerminal(stdout) {
		return cli.Usagef("-w - writes binary data to the terminal: redirect it, or name a file")
	}
	return nil
}

// openOutput opens the file that -w names, - for standard output. Other users cannot read a new file, because packets are private.
func openOutput(name string, stdout io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return lasting{stdout}, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("-w: %w: name a file that can be written", err)
	}
	return &fresh{File: file}, nil
}

// lasting is an output that stays open.
type lasting struct{ io.Writer }

func (lasting) Close() error { return nil }

// fresh is a file that is emptied with the first write, so that a refused command does not destroy an earlier file.
type fresh struct {
	*os.File
	begun bool
}

func (f *fresh) Write(b []byte) (int, error) {
	if info, err := f.Stat(); !f.begun && err == nil && info.Mode().IsRegular() { // a pipe cannot be emptied
		if err := f.Truncate(0); err != nil {
			return 0, err
		}
	}
	f.begun = true
	return f.File.Write(b)
}
