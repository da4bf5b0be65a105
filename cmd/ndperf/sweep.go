package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// Defaults of a sweep. A test of 200 ms has tens of thousands of round trips or a thousand megabytes. The whole sweep takes about
// eight minutes.
const (
	sweepDuration = 200 * time.Millisecond
	sweepFile     = "ndperf-sweep.json"
	// sweepRateSize is the largest message whose rate is measured. For larger ones the rate is the bandwidth divided by the size.
	sweepRateSize = 64
	// rawHeaders is an upper bound for the headers of raw packets. A ping-pong of raw takes one packet.
	rawHeaders = 128
)

// The sizes are eight points of each plot: for latency, messages that fit into an Ethernet packet; for streams, sizes at which the
// bytes matter.
var (
	sweepLatSizes    = []int{8, 16, 32, 64, 128, 256, 512, 1 << 10}
	sweepStreamSizes = []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	sweepDatapaths   = []string{"tcx", "generic", "udp"}
)

// sweepFlags are the values of the flags of sweep.
type sweepFlags struct {
	runFlags
	datapaths []string
	mtus      []int
	baselines []string
}

func newSweep() *cobra.Command {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Measure over sizes, MTUs and datapaths, for a report (root)",
		Long: `sweep does what "ndperf veth" does for every message size, MTU and datapath, and writes one JSON file from
which "ndperf report" makes a page with tables and plots.

Latency is measured at the first MTU, for messages that fit into one packet there; the rate for messages of 64 bytes.`,
		Example: `  ndperf sweep                                         about eight minutes, to ndperf-sweep.json
  ndperf sweep --mtu 1500 --datapath generic           the short form
  ndperf sweep --tests write_bw --sizes 4K,64K,1M      bandwidth of Writes only
  ndperf report ndperf-sweep.json                      the page`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSweep(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.registerTests(cmd)
	f.registerBounds(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&f.datapaths, "datapath", sweepDatapaths, "datapaths to measure: "+oneOfDatapaths)
	fl.IntSliceVar(&f.mtus, "mtu", defaultMTUs, "link MTUs to measure at")
	fl.StringSliceVar(&f.baselines, "baseline", []string{"raw", "tcp"}, "what to measure beside nd: "+baselinesAre)
	f.duration, fl.Lookup("duration").DefValue = sweepDuration, sweepDuration.String()
	f.json, fl.Lookup("json").DefValue = sweepFile, sweepFile
	fl.Lookup("sizes").Usage = "message sizes such as 64,4K,1M (default 8 to 1K for latency, 64 to 1M for streams, eight of each)"
	return cmd
}

func runSweep(ctx context.Context, f *sweepFlags, stdout, stderr io.Writer) error {
	specs, beside, err := f.check()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("sweep makes network namespaces and loads an XDP program, which needs root: run it with sudo")
	}
	beside.leaveOut(stderr, f.datapaths...)
	steps := planSteps(specs, f.datapaths, f.mtus, beside, false)
	r := &vethRun{report: newReport(), interval: f.told.interval}
	out := output{f.json, f.told.stream, stdout, stderr, func(w io.Writer, r *bench.Report) { renderSweep(w, r, f.json) }, f.bounds}
	return runSteps(ctx, out, r.report, steps, func(s step, p *progress) error { return r.do(ctx, s, p) })
}

// check returns the tests and rivals to measure.
func (f *sweepFlags) check() (specs []bench.Spec, beside baselines, err error) {
	if len(f.datapaths) == 0 {
		return nil, beside, cli.Usagef("--datapath: name at least one of %s", oneOfDatapaths)
	}
	for _, d := range f.datapaths {
		f.datapath = d
		if err := f.checkDatapath(); err != nil {
			return nil, beside, err
		}
	}
	if err := checkMTUs(f.mtus); err != nil {
		return nil, beside, err
	}
	if beside, err = parseBaselines(f.baselines); err != nil {
		return nil, beside, err
	}
	usual := len(f.sizes) == 0
	if usual {
		f.sizes = usualSizes(f.entries)
	}
	if specs, err = f.plan(); err != nil {
		return nil, beside, err
	}
	room := f.mtus[0] - rawHeaders
	specs = slices.DeleteFunc(specs, func(s bench.Spec) bool {
		sizes := sweepStreamSizes
		if s.Test.IsLatency() {
			sizes = sweepLatSizes
		}
		return usual && !slices.Contains(sizes, s.Size) || s.Test.IsLatency() && s.Size > room || s.Test.IsRate() && s.Size > sweepRateSize
	})
	if len(specs) == 0 {
		return nil, beside, cli.Usagef("nothing to measure: latency takes messages up to %d bytes at MTU %d, the rate up to %d bytes: "+
			"name a smaller one with --sizes, or other --tests", room, f.mtus[0], sweepRateSize)
	}
	return specs, beside, nil
}

// usualSizes returns all sizes that a test supports, with at least a byte for each entry.
func usualSizes(entries int) []string {
	var names []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(sweepLatSizes, sweepStreamSizes)))) {
		if n >= entries {
			names = append(names, strconv.Itoa(n))
		}
	}
	return names
}

// renderSweep prints a summary, because a terminal is too small for all figures.
func renderSweep(w io.Writer, r *bench.Report, path string) {
	if unverified(r) { // report refuses it
		fmt.Fprintf(w, "%d results beside %d of rivals; %s\n", len(r.Results), len(r.Baselines), sayUnverified)
		return
	}
	fmt.Fprintf(w, "%d results beside %d of rivals, every operation verified\n", len(r.Results), len(r.Baselines))
	if path != "" && path != "-" {
		fmt.Fprintf(w, "next: ndperf report %s\n", path)
	}
}
