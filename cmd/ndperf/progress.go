package main

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// progress shows the progress of a run: a bar on a terminal, otherwise lines. It draws only when a test starts or ends, because an
// animated bar would use the cores that are being measured.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil if w is not a terminal

	events *stream // JSON stream of events
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

// stage shows the stage of work without tests.
func (p *progress) stage(what string) {
	if p.bar == nil {
		fmt.Fprintln(p.w, what)
		return
	}
	p.start(what)
	_ = p.bar.Add(1) // errors do not matter: see done
}

func (p *progress) done(line string) {
	if p.bar == nil {
		fmt.Fprintln(p.w, line)
		return
	}
	// An error of the terminal must not end the measurement.
	_ = p.bar.Add(1)
}

// skip counts a test that is left out.
func (p *progress) skip() {
	if p.bar != nil {
		_ = p.bar.Add(1) // errors do not matter: see done
	}
}

// note prints a line during a test.
func (p *progress) note(line string) {
	if p.bar != nil {
		_ = p.bar.Clear() // errors do not matter: see done
	}
	fmt.Fprintln(p.w, line)
}

// finish clears the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish() // errors do not matter: see done
	}
}

// abandon moves the cursor to the start of a line, for the error message.
func (p *progress) abandon() {
	if p.bar != nil {
		_ = p.bar.Clear() // errors do not matter: see done
	}
}
