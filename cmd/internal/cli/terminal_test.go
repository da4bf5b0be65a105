package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo terminal. screen reads the output to tty.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	n := 0
	control, err := screen.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := control.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return screen, tty
}

// TestTransferDrawsOnTerminalsOnly shows a long transfer, with a start time in the past, on a terminal and in a file.
func TestTransferDrawsOnTerminalsOnly(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	screen, tty := openTerminal(t)
	for _, to := range []*os.File{file, tty} {
		bar := NewTransfer(to, 100)
		bar.start = time.Now().Add(-2 * longTransfer)
		bar.Add(50)
		bar.Finish()
	}
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%v: the bar is in a file: %d bytes", err, info.Size())
	}
	got := make([]byte, 4096)
	n, err := screen.Read(got)
	if err != nil || !strings.Contains(string(got[:n]), "%") || strings.Contains(string(got[:n]), "\x1b[3") {
		t.Errorf("%v: %q on the terminal; want a bar without colours", err, got[:n])
	}
}

// TestColours: a terminal gets colours unless NO_COLOR is set. Other files never do.
func TestColours(t *testing.T) {
	_, tty := openTerminal(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !Colours(tty) || Colours(&strings.Builder{}) {
		t.Error("not on a terminal, or elsewhere")
	}
	t.Setenv("TERM", "dumb")
	if Colours(tty) {
		t.Error("a width, although the terminal has none")
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	if Colours(tty) {
		t.Error("although NO_COLOR is set")
	}
}
