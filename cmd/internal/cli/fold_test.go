package cli

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFold: lines break between words, a word that is too long stays whole, and without a width nothing is folded.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 0, "one two three"},
		{"one two three", 13, "one two three"},
		{"one two three", 12, "one two\n  three"},
		{"one two three", 7, "one two\n  three"},
		{"µs µs µs", 5, "µs µs\n  µs"},
		{"a longer-than-that b", 6, "a\n  longer-than-that\n  b"},
		{"", 5, ""},
	} {
		if got := Fold(c.text, c.width, "  "); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
	if got := Pack([]string{"in 1", "out 2", "RTT 3"}, ", ", 12, ""); got != "in 1, out 2\nRTT 3" {
		t.Errorf("%q", got)
	}
}

// TestWidth: a terminal has a width, and other files have none.
func TestWidth(t *testing.T) {
	screen, tty := openTerminal(t)
	if got := Width(tty); got != 0 {
		t.Errorf("a terminal that does not say: %d", got)
	}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	if got := Width(tty); got != 80 {
		t.Errorf("a terminal of 80 columns has %d", got)
	}
	if got := Width(&bytes.Buffer{}); got != 0 {
		t.Errorf("no terminal has %d columns", got)
	}
}
