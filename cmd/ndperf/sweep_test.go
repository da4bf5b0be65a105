package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// steps returns the steps for the flags on a machine where all can be measured.
func (f *sweepFlags) steps(t *testing.T) []step {
	t.Helper()
	specs, beside, err := f.check()
	if err != nil {
		t.Fatal(err)
	}
	return planSteps(specs, f.datapaths, f.mtus, beside, false)
}

// TestSweepSteps: every combination occurs once, baselines come before the tests that are compared with them, and no step occurs twice.
func TestSweepSteps(t *testing.T) {
	f := &sweepFlags{
		runFlags:  runFlags{tests: []string{"write_lat", "write_bw", "write_rate"}, sizes: []string{"64", "2K"}, duration: time.Second},
		datapaths: []string{"generic", "udp"}, mtus: []int{1500, 9000}, baselines: []string{"raw", "tcp"},
	}
	steps := f.steps(t)
	var got []string
	for _, s := range steps {
		seen := map[string]bool{}
		for _, job := range s.jobs {
			var specs []string
			for _, x := range job.Specs {
				if spec := fmt.Sprintf("%s/%d", x.Test, x.Size); !slices.Contains(specs, spec) { // variants of streams
					specs = append(specs, spec)
				}
			}
			pinned := map[bool]string{true: " unpinned"}[job.Unpinned]
			line := fmt.Sprintf("%d %s %s%s: %s", s.mtu, job.Kind, job.Datapath, pinned, strings.Join(specs, " "))
			if !seen[line] {
				seen[line] = true
				got = append(got, line)
			}
		}
	}
	want := []string{
		"1500 tcp : write_lat/64 write_bw/64 write_bw/2048",
		"1500 tcp  unpinned: write_lat/64 write_bw/64 write_bw/2048",
		"1500 tcp_spin : write_lat/64 write_bw/64 write_bw/2048",
		"1500 tcp_spin  unpinned: write_lat/64 write_bw/64 write_bw/2048",
		"1500 raw generic: write_lat/64 write_bw/64 write_bw/2048",
		"1500 raw native: write_lat/64 write_bw/64 write_bw/2048",
		"1500 nd generic: write_lat/64 write_bw/64 write_bw/2048 write_rate/64",
		"1500 nd udp: write_lat/64 write_bw/64 write_bw/2048 write_rate/64",
		"9000 tcp : write_bw/64 write_bw/2048",
		"9000 tcp  unpinned: write_bw/64 write_bw/2048",
		"9000 tcp_spin : write_bw/64 write_bw/2048",
		"9000 tcp_spin  unpinned: write_bw/64 write_bw/2048",
		"9000 raw generic: write_bw/64 write_bw/2048",
		"9000 raw native: write_bw/64 write_bw/2048",
		"9000 nd generic: write_bw/64 write_bw/2048 write_rate/64",
		"9000 nd udp: write_bw/64 write_bw/2048 write_rate/64",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSweepHasEightSizes: each plot over sizes has eight points for each line, and the rate has its one size.
func TestSweepHasEightSizes(t *testing.T) {
	f := &sweepFlags{
		runFlags:  runFlags{tests: []string{"write_lat", "read_lat", "send_lat", "write_bw", "read_bw", "send_bw", "write_rate"}, duration: time.Second},
		datapaths: []string{"generic"}, mtus: []int{1500}, baselines: []string{"raw", "tcp"},
	}
	steps := f.steps(t)
	for _, s := range steps {
		for _, job := range s.jobs {
			sizes := map[bench.Test]map[int]bool{}
			for _, x := range job.Specs {
				if sizes[x.Test] == nil {
					sizes[x.Test] = map[int]bool{}
				}
				sizes[x.Test][x.Size] = true
			}
			for test, of := range sizes {
				if want := map[bool]int{true: 1, false: 8}[test.IsRate()]; len(of) != want || !test.IsLatency() && !of[64] {
					t.Errorf("%s of %s has %d sizes, want %d", test, job.Kind, len(of), want)
				}
			}
		}
	}
}

// TestSweepOfManyEntries: sizes with less than a byte for each entry are left out, and do not end a sweep whose flags name no sizes.
func TestSweepOfManyEntries(t *testing.T) {
	f := &sweepFlags{
		runFlags:  runFlags{tests: []string{"write_lat"}, duration: time.Second, entries: bench.MaxEntries},
		datapaths: []string{"udp"}, mtus: []int{1500}, baselines: []string{"tcp"},
	}
	steps := f.steps(t)
	for _, s := range steps {
		for _, job := range s.jobs {
			for _, x := range job.Specs {
				if x.Size < bench.MaxEntries {
					t.Errorf("%s of %d bytes has %d entries", x.Test, x.Size, bench.MaxEntries)
				}
			}
		}
	}
}

// TestSweepOfPlainSockets: raw AF_XDP is no ceiling for plain sockets, so it is left out, and one line says so.
func TestSweepOfPlainSockets(t *testing.T) {
	for _, c := range []struct {
		datapaths []string
		out       bool
	}{
		{[]string{"udp"}, true},
		{[]string{"udp", "ring"}, true},
		{[]string{"tcx"}, false},
		{[]string{"udp", "generic"}, false},
		{[]string{"auto"}, false},
	} {
		var said strings.Builder
		b := baselines{raw: true, tcp: bench.PlainTCP}
		b.leaveOut(&said, c.datapaths...)
		if left := strings.Contains(said.String(), errNoAFXDP.Error()); left != c.out || c.out && (b.raw || b.tcp != bench.PlainTCP || strings.Count(said.String(), "\n") != 1) {
			t.Errorf("%q: %+v, said %q", c.datapaths, b, said.String())
		}
	}
}

func TestSweepRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--datapath \"dpdk\"":        {"--datapath", "dpdk"},
		"--mtu 99 is out of range":   {"--mtu", "99"},
		"--baseline: \"rdma\"":       {"--baseline", "rdma"},
		"--sizes: \"many\"":          {"--sizes", "many"},
		"nothing to measure":         {"--tests", "write_lat", "--sizes", "1M"},
		"--duration -1s is not":      {"--duration", "-1s"},
		"name at least one of auto,": {"--datapath", ""},
	} {
		cmd := newSweep()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sweep %q: %v, want %q", args, err, want)
		}
	}
}

// TestSweepOfNothingIsMisuse: flags that leave nothing to measure are misuse, and have the exit status of misuse.
func TestSweepOfNothingIsMisuse(t *testing.T) {
	for _, args := range [][]string{{"--datapath", ""}, {"--tests", "write_lat", "--sizes", "1M"}} {
		root := newRoot()
		root.SetArgs(append([]string{"sweep"}, args...))
		var out bytes.Buffer
		if status := cli.Run(t.Context(), root, &out); status != cli.Misuse {
			t.Errorf("%q: status %d, %s", args, status, &out)
		}
	}
}

// TestSweep runs a short real sweep, and checks its file like validate.
func TestSweep(t *testing.T) {
	netlabtest.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "sweep.json")
	out := runNdperf(t, "sweep", "--duration", "20ms", "--mtu", "1500", "--datapath", "generic,udp", "--sizes", "64,64K",
		"--tests", "write_lat,write_bw", "--json", file)
	if !strings.Contains(out, "6 results beside 7 of rivals") || !strings.Contains(out, "ndperf report "+file) {
		t.Errorf("the output is %q", out)
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Time.IsZero() || !strings.Contains(r.Command, "ndperf sweep --duration 20ms") {
		t.Errorf("time %v or command %q is missing", r.Time, r.Command)
	}
	for _, x := range r.Results {
		if x.LatUS != nil && len(x.LatUS.Dist) == 0 { // the number of points depends on the number of operations on a busy machine
			t.Errorf("%s over %s has no distribution", x.Test, x.Datapath)
		}
	}
	for _, b := range r.Baselines {
		variants := map[string]int{"raw write_lat": 2, "raw write_bw": 6, "tcp write_lat": 2, "tcp_spin write_lat": 2, "tcp write_bw": 4, "tcp_spin write_bw": 4}
		if n := variants[b.Kind+" "+string(b.Test)]; b.Variant == "" || len(b.Variants) != n {
			t.Errorf("%s %s is %q of %d variants, want one of %d", b.Kind, b.Test, b.Variant, len(b.Variants), n)
		}
	}
}

// runNdperf runs ndperf, and returns its standard output.
func runNdperf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := ndperf(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ndperf %v: %v\n%s", args, err, &stderr)
	}
	return string(out)
}
