package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// IsTerminal says that somebody looks at what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colours says that w shows colours, and that nobody asked for none (https://no-color.org).
func Colours(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

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
