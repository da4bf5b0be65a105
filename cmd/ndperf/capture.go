package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/cli"
)

// captureFlags say whether the packets of nd are captured. Each job adds a section to the file.
type captureFlags struct {
	file string
	snap int
}

func (f *captureFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "pcap", "", "capture the packets of nd to this pcapng file; if this process starts the server side too, its packets go to x-server.pcapng for x.pcapng (docs/OPERATING.md#captures)")
	cmd.Flags().IntVar(&f.snap, "pcap-snap", 0, "bytes of each packet to capture (default all)")
}

// prepare empties the files, so that jobs can append to them. They must differ from all other files that the
// run writes.
func (f *captureFlags) check(both bool, json, stream string) error {
	if f.snap < 0 {
		return cli.Usagef("--pcap-snap %d is negative", f.snap)
	}
	if f.file == "" {
		if f.snap > 0 {
			return cli.Usagef("--pcap-snap %d cuts the packets of --pcap: name its file, or leave it out", f.snap)
		}
		return nil
	}
	for _, file := range f.files(both) {
		switch {
		case oneFile(file, json):
			return cli.Usagef("--pcap and --json cannot both write %s: name another file for one", file)
		case oneFile(file, stream):
			return cli.Usagef("--pcap and --json-stream cannot both write %s: name another file for one", file)
		}
	}
	return nil
}

// files lists the files that a capture of one side, or of both sides, writes.
func (f *captureFlags) files(both bool) []string {
	switch {
	case f.file == "":
		return nil
	case both:
		return []string{f.file, serverFile(f.file)}
	}
	return []string{f.file}
}

// prepare checks the flags, and empties the files.
func (f *captureFlags) prepare(both bool, json, stream string) error {
	if err := f.check(both, json, stream); err != nil {
		return err
	}
	for _, file := range f.files(both) {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			return fmt.Errorf("--pcap: %w: name a file that can be written", err)
		}
	}
	return nil
}

// apply makes a job over nd capture.
func (f *captureFlags) apply(job *bench.Job) {
	if job.Kind == bench.KindND {
		job.PCAP, job.Snap = f.file, f.snap
	}
}

// serverFile returns where the responder's packets go: a.pcapng becomes a-server.pcapng.
func serverFile(file string) string {
	if file == "" {
		return ""
	}
	ext := filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "-server" + ext
}
