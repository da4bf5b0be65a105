package main

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/ndxdp/ndxdp/internal/cli"
)

// progress shows how far a run is: a bar on a terminal, plain lines anywhere else. It draws only when a test starts or
// ends, because a bar that moves by itself would take time from the cores that are being measured.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil when w is not a terminal

	events *stream // of the run, for programs
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w}
	if cli.IsTerminal(w) {
		p.bar = newBar(w, total)
	}
	return p
}

func newBar(w io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(0),
		progressbar.OptionSetDescription("starting"),
	)
}

func (p *progress) start(what string) {
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%-34s", what))
	}
}

// stage is for work that has no tests to count.
func (p *progress) stage(what string) {
	if p.bar == nil {
		fmt.Fprintln(p.w, what)
		return
	}
	p.start(what)
	_ = p.bar.Add(1) // see done
}

func (p *progress) done(line string) {
	if p.bar == nil {
		fmt.Fprintln(p.w, line)
		return
	}
	// A terminal that cannot be drawn on is no reason to lose a measurement.
	_ = p.bar.Add(1)
}

// skip is for a test that is left out.
func (p *progress) skip() {
	if p.bar != nil {
		_ = p.bar.Add(1) // see done
	}
}

// note is a line in the middle of a test.
func (p *progress) note(line string) {
	if p.bar != nil {
		_ = p.bar.Clear() // see done
	}
	fmt.Fprintln(p.w, line)
}

// finish clears the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish() // see done
	}
}

// abandon leaves the cursor at the start of a line, where the error message goes.
func (p *progress) abandon() {
	if p.bar != nil {
		_ = p.bar.Clear() // see done
	}
}
