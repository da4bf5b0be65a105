package cli

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// onTerminal runs a command with a terminal as output and error output, and returns what is on the screen at its end.
func onTerminal(t *testing.T, cmd *exec.Cmd) (o outcome, shown string) {
	t.Helper()
	screen, tty := openTerminal(t)
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	all, err := io.ReadAll(screen) // until nobody has the terminal any more, which is EIO
	if err != nil && !strings.Contains(err.Error(), syscall.EIO.Error()) {
		t.Error(err)
	}
	return ended(t, cmd), string(all)
}

// short is a run of every command that ends by itself.
func short(t *testing.T) map[string]string {
	return map[string]string{
		"ndbroker": "ndbroker --interface nosuch0 --allow-uid 1 --socket " + os.DevNull,
		"ndcat":    "ndcat --help",
		"ndinfo":   "ndinfo doctor",
		"ndperf":   "ndperf loop --duration 5ms --tests write_lat --baseline none --udp-port " + freePort(t),
		"ndping":   "ndping --help",
		"ndstat":   "ndstat --once",
	}
}

var (
	escape = regexp.MustCompile("\x1b")
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// TestNoEscapesElsewhere: what goes to a file or a pipe is text, and NO_COLOR keeps colours from terminals. A command that has
// colours has them on a terminal.
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
