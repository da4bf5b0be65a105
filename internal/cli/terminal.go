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

// descriptor is what may be a terminal: a file, or the standard output that Main gives commands.
type descriptor interface{ Fd() uintptr }

// IsTerminal reports whether somebody looks at what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colours reports whether w shows colours, and that nobody asked for none (https://no-color.org).
func Colours(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width returns how many columns the terminal w has; 0 where w is none, or does not say: lines are as long as they get there.
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

// Fold breaks text between words, so that no line is wider than so many columns but for words that are. Lines after the first begin with indent.
// Width 0 breaks nothing.
func Fold(text string, width int, indent string) string {
	return Pack(strings.Split(text, " "), " ", width, indent)
}

// Pack puts parts into lines as Fold does words, with between where no line ends.
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

// longTransfer is when a transfer has a bar: short ones only flicker.
const longTransfer = time.Second

// Transfer is the bar of bytes that move on a terminal, and nothing anywhere else.
type Transfer struct {
	to    io.Writer // nil when it is no terminal
	total int64     // -1 when it is not known
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar // nil at first
}

// NewTransfer makes a bar that shows on w, from a second on. total is in bytes, or -1 when nobody knows.
func NewTransfer(w io.Writer, total int64) *Transfer {
	t := &Transfer{total: total, start: time.Now()}
	if IsTerminal(w) {
		t.to = w
	}
	return t
}

// Add says that n more bytes have moved.
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
		_ = t.bar.Set64(t.done) // a terminal that cannot be drawn on is no reason to stop
	}
}

// Finish removes the bar.
func (t *Transfer) Finish() {
	if t.bar != nil {
		_ = t.bar.Clear() // as above
	}
}
