package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// captureFlags say whether to capture the packets of nd. Each job adds a section to the file.
type captureFlags struct {
	file string
	snap int
}

func (f *captureFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "pcap", "", "capture the packets of nd to this pcapng file; if this process starts the server side too, its packets go to x-server.pcapng for x.pcapng (docs/OPERATING.md#captures)")
	cmd.Flags().IntVar(&f.snap, "pcap-snap", 0, "bytes of each packet to capture (default all)")
}

// check checks the flags. The files must differ from all other output files.
func (f *captureFlags) check(both bool, json, stream string) error {
	if f.snap < 0 {
		return cli.Usagef("--pcap-snap %d is negative", f.snap)
	}
	if f.file == "" {
		if f.snap > 0 {
			return cli.Usagef("--pcap-snap %d limits the packets of --pcap: add --pcap, or leave --pcap-snap out", f.snap)
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

// files returns the capture files of one side, or of both sides.
func (f *captureFlags) files(both bool) []string {
	switch {
	case f.file == "":
		return nil
	case both:
		return []string{f.file, serverFile(f.file)}
	}
	return []string{f.file}
}

// prepare checks the flags and empties the files, so that jobs can append to them.
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

// apply enables the capture in a job over nd.
func (f *captureFlags) apply(job *bench.Job) {
	if job.Kind == bench.KindND {
		job.PCAP, job.Snap = f.file, f.snap
	}
}

// serverFile returns the file for the responder's packets: a-server.pcapng for a.pcapng.
func serverFile(file string) string {
	if file == "" {
		return ""
	}
	ext := filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "-server" + ext
}
