package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// streamFlags are the flags for reports during a test.
type streamFlags struct {
	interval time.Duration
	stream   string
}

func (f *streamFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.DurationVar(&f.interval, "interval", 0, fmt.Sprintf("time between lines of progress while a test runs: at least %v (default none)", bench.MinInterval))
	fl.StringVar(&f.stream, "json-stream", "", "write each interval and result as a line of JSON to this file at once, - for standard output")
}

func (f *streamFlags) check(report string) error {
	switch {
	case f.interval != 0 && f.interval < bench.MinInterval:
		return cli.Usagef("--interval %v is too short: choose at least %v", f.interval, bench.MinInterval)
	case f.stream == "-" && report == "-":
		return cli.Usagef("--json - and --json-stream - cannot both write to standard output: name a file for one of them")
	case oneFile(f.stream, report):
		return cli.Usagef("--json and --json-stream cannot both write %s: name another file for one", report)
	}
	return nil
}

// stream writes events of a run, one JSON object a line: {"event": "interval", "data": {...}}. Each is written at once, so that a
// program can follow the run. A nil stream writes nothing.
type stream struct {
	file *os.File // nil for standard output
	enc  *json.Encoder
	err  error // first error; nothing is written after it
}

func openStream(path string, stdout io.Writer) (*stream, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		return &stream{enc: json.NewEncoder(stdout)}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--json-stream: %w: name a file that can be written", err)
	}
	return &stream{file: f, enc: json.NewEncoder(f)}, nil
}

// tell writes one event. An error does not end the measurement, but close returns it.
func (s *stream) tell(event string, data any) {
	if s != nil && s.err == nil {
		s.err = s.enc.Encode(struct {
			Event string `json:"event"`
			Data  any    `json:"data"`
		}{event, data})
	}
}

// close returns the error that prevented events from being written.
func (s *stream) close() error {
	if s == nil {
		return nil
	}
	if s.file != nil {
		s.err = errors.Join(s.err, s.file.Close())
	}
	if s.err != nil {
		return fmt.Errorf("--json-stream: not every event was written: %w", s.err)
	}
	return nil
}

// intervalLine returns an interval as a line of text.
func intervalLine(x bench.Interval) string {
	what := fmt.Sprintf("%s %s", x.Test, bench.FormatSize(x.Size))
	if x.Connections > 1 {
		what += fmt.Sprintf(" x%d", x.Connections)
	}
	if x.Direction != "" {
		what += " " + x.Direction
	}
	moved := number(x.Gbps) + " Gb/s"
	if x.Test.IsRate() || x.Test.IsLatency() {
		moved = number(x.Mops) + " Mop/s"
	}
	return fmt.Sprintf("%s %s-%s s: %s, CPU %.0f %%, resent %d", what, number(x.Start), number(x.Start+x.Seconds), moved, x.CPU, x.Resent)
}
