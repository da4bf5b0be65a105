package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// longTransfer is when a transfer has a bar: short ones only flicker.
const longTransfer = time.Second

// progress is a bar on a terminal, and nothing anywhere else.
type progress struct {
	to    io.Writer // nil when it is no terminal
	total int64     // -1 when it is not known
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar // nil at first
}

func newProgress(w io.Writer, total int64) *progress {
	p := &progress{total: total, start: time.Now()}
	if f, isFile := w.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		p.to = w
	}
	return p
}

func (p *progress) add(n int) {
	p.done += int64(n)
	if p.to == nil {
		return
	}
	if p.bar == nil && time.Since(p.start) > longTransfer {
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(p.to), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if p.bar != nil {
		_ = p.bar.Set64(p.done) // a terminal that cannot be drawn on is no reason to stop
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}
