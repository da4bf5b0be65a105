package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// output is where a run reports its results.
type output struct {
	json, stream   string // paths, "-" for standard output, or empty
	stdout, stderr io.Writer
	render         func(io.Writer, *bench.Report) // prints tables
	bounds         bool                           // print the project's bounds, and fail if one is missed
}

// errMissed means that a bound was missed. The output names it.
var errMissed = fmt.Errorf("a bound is missed: %w", cli.ErrTold)

// runSteps runs all steps and reports the results. An interrupted or failed run reports its results so far.
func runSteps(ctx context.Context, to output, report *bench.Report, steps []step, do func(step, *progress) error) (err error) {
	out, err := openJSON(to.json, to.stdout)
	if err != nil {
		return err
	}
	defer out.abandon()
	events, err := openStream(to.stream, to.stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.close()) }()
	stdout := to.stdout
	if out.toStdout() || to.stream == "-" {
		stdout = to.stderr // so that standard output has only JSON
	}
	total := 0
	for _, s := range steps {
		total += s.figures()
	}
	p := newProgress(to.stderr, total)
	p.events = events
	var failed error
	for i := 0; i < len(steps) && failed == nil; i++ {
		if failed = context.Cause(ctx); failed == nil {
			failed = do(steps[i], p)
		}
	}
	if failed != nil {
		p.abandon()
		if len(report.Results)+len(report.Baselines)+len(report.Registrations) == 0 {
			return failed
		}
		report.Incomplete = true
		fmt.Fprintf(stdout, "not all was measured: %s\n", cli.OneLine(failed))
	} else {
		p.finish()
	}
	report.SetRatios()
	to.render(stdout, report)
	missed := to.bounds && saysBounds(stdout, report)
	if err := out.write(report); err != nil {
		return err
	}
	if failed == nil && missed {
		return errMissed
	}
	return failed
}

// saysBounds prints the bounds of a report, and a line if some are missed. One run on an arbitrary machine proves little, so
// "ndperf bars" judges several.
func saysBounds(w io.Writer, r *bench.Report) bool {
	renderBounds(w, r)
	missed, first, allocates := 0, "", false
	bars := bench.Bars([]*bench.Report{r})
	for i := range bars {
		if b := &bars[i]; !b.Met() {
			allocates = allocates || strings.HasPrefix(b.Name, bench.MostAllocations)
			if missed++; first == "" {
				first = fmt.Sprintf("%s is %.3g, want %s %.3g", b, b.Median(), b.Want, b.Bound)
			}
		}
	}
	if missed > 0 {
		note(w, "bounds missed: %d of %d, such as %s", missed, len(bars), first)
	}
	if allocates && len(r.Captures) == 0 && slices.ContainsFunc(r.Results, func(x bench.Result) bool { return x.Retransmits > 0 }) {
		note(w, "allocations may be memory for what waits behind lost packets, which grows once, whenever they are lost: "+
			"compare with a run of ten times the --duration: allocations by each operation become ten times as many")
	}
	return missed > 0
}
