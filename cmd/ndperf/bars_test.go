package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestBarsFailsForAMissedBound: the table has every bounded figure with median and margin. A missed bound ends the command with an error
// that names it. Command validate accepts the same file.
func TestBarsFailsForAMissedBound(t *testing.T) {
	file := filepath.Join("..", "..", "bench", "testdata", "report.golden.json")
	var out bytes.Buffer
	cmd := newBars()
	cmd.SetArgs([]string{file, file, file})
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	if err == nil || err.Error() != "medians miss their bounds: read_bw / write_bw (1 MiB, MTU 1500) over generic is 0.8, want >= 0.9" {
		t.Errorf("error is %v", err)
	}
	for _, want := range []string{"MISSED by 11 %", "met by 7 %", "write_lat p50 / raw", ">= 0.9"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	validate := newValidate()
	validate.SetArgs([]string{file})
	validate.SetOut(io.Discard)
	if err := validate.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoVerdictOnAnInterruptedRun: bars and validate refuse the report of an incomplete run, and say why.
func TestNoVerdictOnAnInterruptedRun(t *testing.T) {
	r, err := readReport(filepath.Join("..", "..", "bench", "testdata", "report.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	r.Incomplete = true
	file := filepath.Join(t.TempDir(), "report.json")
	out, err := openJSON(file, io.Discard)
	if err == nil {
		err = out.write(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*cobra.Command{newBars(), newValidate()} {
		cmd.SetArgs([]string{file})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "the run was interrupted") {
			t.Errorf("%s: %v", cmd.Name(), err)
		}
	}
}
