package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// slow is a result that misses a bound relative to the baseline beat.
var (
	slow = bench.Result{Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Mode: bench.ModePoll, Datapath: "generic", Ops: 1, Gbps: 0.1, Verified: true}
	beat = bench.Baseline{Kind: bench.KindRaw, Variant: "generic", Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 100}
)

// runOutput runs a run with steps of do, and returns the printed text and the written report.
func runOutput(t *testing.T, ctx context.Context, bounds bool, do func(n int) error) (said string, r *bench.Report, err error) {
	t.Helper()
	var stdout bytes.Buffer
	file := filepath.Join(t.TempDir(), "report.json")
	report := newReport()
	n := 0
	err = runSteps(ctx, output{file, "", &stdout, io.Discard, renderReport, bounds}, report, make([]step, 3), func(step, *progress) error {
		n++
		if err := do(n); err != nil {
			return err
		}
		if n == 1 {
			report.Results, report.Baselines = append(report.Results, slow), append(report.Baselines, beat)
		}
		return nil
	})
	f, openErr := os.Open(file)
	if openErr != nil {
		return stdout.String(), nil, err
	}
	defer f.Close()
	r, readErr := bench.ReadReport(f)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return stdout.String(), r, err
}

// Bounds are printed, and fail the run, only with --bounds.
func TestBoundsWhenAskedFor(t *testing.T) {
	for _, bounds := range []bool{false, true} {
		said, r, err := runOutput(t, t.Context(), bounds, func(int) error { return nil })
		if bounds != errors.Is(err, errMissed) || bounds != errors.Is(err, cli.ErrTold) {
			t.Errorf("bounds %v: %v", bounds, err)
		}
		if r == nil || r.Incomplete {
			t.Errorf("bounds %v: the report is %+v", bounds, r)
		}
		for _, text := range []string{"bounds missed: ", "Bounds of this project", "MISSED", ">= "} {
			if strings.Contains(said, text) != bounds {
				t.Errorf("bounds %v: the output has %q %v times:\n%s", bounds, text, strings.Count(said, text), said)
			}
		}
	}
}

// Allocations beyond the bound may be memory for packets that wait behind lost ones. Without a loss they are not.
func TestAllocationsMayBeOfLosses(t *testing.T) {
	for resent, want := range map[uint64]bool{0: false, 3: true} {
		r := bench.NewReport()
		r.Results = []bench.Result{{Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Datapath: "tcx", Ops: 100, AllocsPerOp: 10, Retransmits: resent}}
		r.SetRatios()
		var out bytes.Buffer
		if !saysBounds(&out, r) || strings.Contains(out.String(), "behind lost packets") != want {
			t.Errorf("%d packets were sent again: %s", resent, &out)
		}
	}
}

// If a run is interrupted or fails, its results so far are printed and written, and the run fails.
func TestInterruptedRunReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	said, r, err := runOutput(t, ctx, true, func(n int) error {
		if n == 2 {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || r == nil || !r.Incomplete || len(r.Results) != 1 || len(r.Ratios) == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if !strings.Contains(said, "not all was measured: context canceled\n") || !strings.Contains(said, "bounds missed: ") {
		t.Error(said)
	}
	_, r, err = runOutput(t, t.Context(), false, func(int) error { return io.ErrUnexpectedEOF })
	if !errors.Is(err, io.ErrUnexpectedEOF) || r != nil {
		t.Errorf("nothing measured: %v, %+v", err, r)
	}
}
