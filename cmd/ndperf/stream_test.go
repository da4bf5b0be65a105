package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// TestStream: each interval and result is written as a line of JSON at once, before the run ends, and users see the interval as a line of
// text.
func TestStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stream")
	var stderr bytes.Buffer
	report := newReport()
	out := output{"", file, io.Discard, &stderr, renderReport, false}
	err := runSteps(t.Context(), out, report, make([]step, 1), func(_ step, p *progress) error {
		sink := &reportSink{kind: bench.KindND, report: report, progress: p}
		sink.Interval(bench.Interval{Test: bench.WriteBW, Size: 1 << 20, Start: 1, Seconds: 1, Ops: 5, Gbps: 7.5, Mops: 0.25, CPU: 99, Resent: 3})
		sink.Result(slow)
		text, err := os.ReadFile(file)
		if n := strings.Count(string(text), "\n"); err != nil || n != 2 {
			t.Errorf("%d lines before the end: %v", n, err)
		}
		for i, line := range strings.SplitN(string(text), "\n", 2) {
			var e struct {
				Event string
				Data  map[string]any
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event != []string{"interval", "result"}[i] || e.Data["test"] != "write_bw" {
				t.Errorf("%q: %v", line, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "write_bw 1 MiB 1.00-2.00 s: 7.50 Gb/s, CPU 99 %, resent 3\n"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q", stderr.String())
	}
	out.stream = t.TempDir() + "/no/such"
	nothing := func(step, *progress) error { return errors.New("ran") }
	if err := runSteps(context.Background(), out, report, nil, nothing); err == nil || !strings.Contains(err.Error(), "name a file that can be written") {
		t.Errorf("%v", err)
	}
}

// TestStreamToAFullDisk: the run continues and reports its results. It ends with an error that says that events are missing.
func TestStreamToAFullDisk(t *testing.T) {
	var stdout bytes.Buffer
	report := newReport()
	out := output{"", "/dev/full", &stdout, io.Discard, renderReport, false}
	err := runSteps(t.Context(), out, report, make([]step, 1), func(_ step, p *progress) error {
		sink := &reportSink{kind: bench.KindND, report: report, progress: p}
		sink.Result(slow)
		sink.Result(slow)
		return nil
	})
	if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "not every event was written") != 1 || !strings.Contains(stdout.String(), "write_bw") {
		t.Errorf("%v\n%s", err, &stdout)
	}
}

// TestStreamFlags: impossible values are refused before anything runs.
func TestStreamFlags(t *testing.T) {
	for _, c := range []struct {
		f    streamFlags
		json string
		ok   bool
	}{
		{streamFlags{}, "-", true},
		{streamFlags{interval: bench.MinInterval, stream: "-"}, "", true},
		{streamFlags{interval: time.Millisecond}, "", false},
		{streamFlags{interval: -time.Second}, "", false},
		{streamFlags{stream: "-"}, "-", false},
		{streamFlags{stream: "file"}, "file", false},
		{streamFlags{stream: "file"}, "./file", false},
		{streamFlags{stream: os.DevNull}, os.DevNull, true},
		{streamFlags{stream: "file"}, "another", true},
	} {
		if err := c.f.check(c.json); (err == nil) != c.ok {
			t.Errorf("%+v with --json %q: %v", c.f, c.json, err)
		}
	}
}
