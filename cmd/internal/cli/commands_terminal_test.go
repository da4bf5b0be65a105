package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// columns is the default width of a terminal.
const columns = 80

// onTerminal runs a command with a terminal of 80 columns as output and error output, and returns the contents of the screen at the
// end.
func onTerminal(t *testing.T, cmd *exec.Cmd) (o outcome, shown string) {
	t.Helper()
	screen, tty := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	all, err := io.ReadAll(screen) // until the terminal is closed everywhere, which reads as EIO
	if err != nil && !strings.Contains(err.Error(), syscall.EIO.Error()) {
		t.Error(err)
	}
	return ended(t, cmd), string(all)
}

// short has the arguments for a run of every command that ends by itself.
func short(t *testing.T) map[string]string {
	return map[string]string{
		"ndbroker": "ndbroker --interface lo --allow-uid 1 --socket " + os.DevNull,
		"ndcat":    "ndcat --help",
		"ndinfo":   "ndinfo doctor",
		"ndperf":   "ndperf loop --duration 5ms --tests write_lat --baseline none --udp-port " + fmt.Sprint(netlabtest.FreePort(t)),
		"ndping":   "ndping --help",
		"ndstat":   "ndstat --once",
	}
}

var (
	escape = regexp.MustCompile("\x1b")
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// TestNoEscapesElsewhere: output to a file or a pipe has no escape sequences, and NO_COLOR turns colours off on terminals. A
// command with colours uses them on a terminal.
func TestNoEscapesElsewhere(t *testing.T) {
	runs := short(t)
	for _, name := range commandNames {
		args := strings.Fields(runs[name])
		if len(args) == 0 {
			t.Fatalf("%s has no run here", name)
		}
		if o := run(t, name, args[1:]...); escape.MatchString(o.stdout + o.stderr) {
			t.Errorf("%s in a pipe: %q, %q", name, o.stdout, o.stderr)
		}
		plain := command(t, name, args[1:]...)
		plain.Env = append(plain.Env, "NO_COLOR=1")
		if _, shown := onTerminal(t, plain); colour.MatchString(shown) || shown == "" {
			t.Errorf("%s on a terminal with NO_COLOR: %q", name, shown)
		}
		cmd := command(t, name, args[1:]...)
		cmd.Env = append(cmd.Env, "NO_COLOR=")
		if _, shown := onTerminal(t, cmd); colour.MatchString(shown) != (name == "ndinfo") {
			t.Errorf("%s on a terminal: %q", name, shown)
		}
	}
}

// TestFitsTheTerminal: doctor folds its output at the width of the terminal. In a pipe each finding is one line.
func TestFitsTheTerminal(t *testing.T) {
	_, shown := onTerminal(t, command(t, "ndinfo", "doctor"))
	folded := 0
	for line := range strings.Lines(colour.ReplaceAllString(shown, "")) {
		line = strings.TrimRight(line, "\r\n")
		if n := utf8.RuneCountInString(line); n > columns && !strings.HasPrefix(strings.TrimLeft(line, " "), "do:  ") {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.HasPrefix(line, strings.Repeat(" ", 20)) {
			folded++
		}
	}
	if folded == 0 {
		t.Errorf("nothing is folded:\n%s", shown)
	}
	if o := run(t, "ndinfo", "doctor"); strings.Contains(o.stdout, "\n  ") {
		t.Errorf("folded in a pipe:\n%s", o.stdout)
	}
}

// TestProgressIsDrawnOnTerminalsOnly runs ndperf: a terminal shows a progress bar that is removed at the end, and a log gets a line
// for every test.
func TestProgressIsDrawnOnTerminalsOnly(t *testing.T) {
	const args = "loop --duration 5ms --tests write_lat,read_lat --baseline none --udp-port "
	const drawn, test = "50% |", "write_lat 64 B"
	var stderr bytes.Buffer
	piped := command(t, "ndperf", strings.Fields(args+fmt.Sprint(netlabtest.FreePort(t)))...)
	piped.Stderr = &stderr
	if err := piped.Start(); err != nil {
		t.Fatal(err)
	}
	o := ended(t, piped)
	lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	if o.status != OK || len(lines) != 2 || !strings.HasPrefix(lines[0], "nd "+test) || !strings.HasPrefix(lines[1], "nd read_lat 64 B") {
		t.Errorf("%+v; in a pipe: %q", o, stderr.String())
	}
	if strings.ContainsAny(stderr.String(), "\r\x1b%") {
		t.Errorf("a bar in a pipe: %q", stderr.String())
	}
	o, shown := onTerminal(t, command(t, "ndperf", strings.Fields(args+fmt.Sprint(netlabtest.FreePort(t)))...))
	bar, report, found := strings.Cut(shown, "ndperf ") // the report begins with the name of the command
	if o.status != OK || !strings.Contains(bar, drawn) || !strings.Contains(bar, test) || !found {
		t.Errorf("%+v; on a terminal: %q", o, shown)
	}
	width, last := 0, ""
	for over := range strings.SplitSeq(strings.TrimSuffix(bar, "\r\n"), "\r") { // each bar is drawn over the one before
		if over != "" {
			width, last = max(width, utf8.RuneCountInString(over)), over
		}
	}
	if strings.Contains(report, "|") || strings.Trim(last, " ") != "" || len(last) < width {
		t.Errorf("the bar is still there: %q", shown)
	}
}

// TestRegistrationHasProgress: ndperf register has a progress bar as well, with two measurements for each size.
func TestRegistrationHasProgress(t *testing.T) {
	args := "register --sizes 4K --duration 5ms --udp-port " + fmt.Sprint(netlabtest.FreePort(t))
	if o, shown := onTerminal(t, command(t, "ndperf", strings.Fields(args)...)); o.status != OK || !strings.Contains(shown, "50% |") || !strings.Contains(shown, "register 4 KiB") {
		t.Errorf("%+v; on a terminal: %q", o, shown)
	}
}
