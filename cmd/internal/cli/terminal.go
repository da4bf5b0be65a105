package cli

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// descriptor is a file that may be a terminal, or the standard output that Main passes to commands.
type descriptor interface{ Fd() uintptr }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colours reports whether w is a terminal with colours, unless the user has turned colours off (https://no-color.org).
func Colours(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width returns the width of the terminal w in columns. It is 0 if w is not a terminal or its width is unknown; lines are then not
// wrapped.
func Width(w io.Writer) int {
	f, ok := w.(descriptor)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Fold wraps text at spaces, so that lines have at most width columns, except for longer words. Lines after the first begin with
// indent. Width 0 does not wrap.
func Fold(text string, width int, indent string) string {
	return Pack(strings.Split(text, " "), " ", width, indent)
}

// Pack puts parts into lines, like Fold with words. Parts on a line are separated by between.
func Pack(parts []string, between string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, part := range parts {
		n := utf8.RuneCountInString(part)
		switch {
		case i == 0:
		case width > 0 && column+len(between)+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(between)
			column += len(between)
		}
		b.WriteString(part)
		column += n
	}
	return b.String()
}

// longTransfer is the duration from which a transfer shows a bar, because short bars only flicker.
const longTransfer = time.Second

// Transfer is a progress bar of bytes on a terminal. Elsewhere it shows nothing.
type Transfer struct {
	to    io.Writer // nil if it is not a terminal
	total int64     // -1 if unknown
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar // nil before longTransfer
}

// NewTransfer returns a bar that appears on w after a second. total is in bytes, or -1 if unknown.
func NewTransfer(w io.Writer, total int64) *Transfer {
	t := &Transfer{total: total, start: time.Now()}
	if IsTerminal(w) {
		t.to = w
	}
	return t
}

// Add adds n transferred bytes.
func (t *Transfer) Add(n int) {
	t.done += int64(n)
	if t.to == nil {
		return
	}
	if t.bar == nil && time.Since(t.start) > longTransfer {
		t.bar = progressbar.NewOptions64(t.total, progressbar.OptionSetWriter(t.to), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if t.bar != nil {
		_ = t.bar.Set64(t.done) // an error of the terminal must not end the transfer
	}
}

// Finish removes the bar.
func (t *Transfer) Finish() {
	if t.bar != nil {
		_ = t.bar.Clear() // as above
	}
}
