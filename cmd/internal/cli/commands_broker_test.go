package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// nobody is a user without privileges.
const nobody = 65534

// side is a host with a broker, for the commands of a user without privileges.
type side struct {
	ns     *netlab.Namespace
	socket string
	broker *exec.Cmd
}

// as makes the command run as nobody.
func as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// startBroker starts ndbroker for an interface.
func startBroker(t *testing.T, ns *netlab.Namespace, name string) side {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // inaccessible to other users
		t.Fatal(err)
	}
	s := side{ns: ns, socket: filepath.Join(dir, "broker")}
	cmd := command(t, "ndbroker", "--interface", name, "--netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.FD()),
		"--socket", s.socket, "--allow-uid", fmt.Sprint(nobody))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.broker = cmd
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("ndbroker said %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return s
}

// close interrupts the broker.
func (s side) close(t *testing.T) {
	t.Helper()
	if err := s.broker.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if o := ended(t, s.broker); o.status != OK {
		t.Errorf("ndbroker: %+v", o)
	}
}

// listens starts a command that listens, and returns when it has printed first. stop interrupts the command.
func (s side) listens(t *testing.T, first string, cmd *exec.Cmd) (stop func() outcome) {
	t.Helper()
	said, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { said.Close() })
	if cmd.Stdout == nil {
		cmd.Stdout = w
	}
	cmd.Stderr = w
	if err := s.ns.StartProcess(as(cmd)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	text := bufio.NewReader(said)
	if line, err := text.ReadString('\n'); err != nil || !strings.HasPrefix(line, first) || !strings.Contains(line, "datapath generic: leased from a broker: ") {
		t.Fatalf("%s said %q: %v", cmd.Path, line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, text) }()
	return func() outcome {
		_ = cmd.Process.Signal(syscall.SIGINT) // the command may have ended
		return ended(t, cmd)
	}
}

// TestThroughABroker: ndping and ndcat move bytes over AF_XDP for a user without privileges, through ndbroker.
func TestThroughABroker(t *testing.T) {
	netlabtest.NeedRoot(t)
	pair, err := netlab.NewPair(netlab.PairConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := startBroker(t, pair.A, pair.NameA)
	defer a.close(t)
	b := startBroker(t, pair.B, pair.NameB)
	defer b.close(t)
	at := pair.AddrA.Addr().String() + ":7000"
	asks := func(name, stdin string, args ...string) (string, outcome) {
		t.Helper()
		var out bytes.Buffer
		cmd := as(command(t, name, append([]string{at, "--broker", b.socket}, args...)...))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
		if err := pair.B.StartProcess(cmd); err != nil {
			t.Fatal(err)
		}
		o := ended(t, cmd)
		return out.String(), o
	}

	stop := a.listens(t, "answering at", command(t, "ndping", "-l", at, "--broker", a.socket))
	for _, from := range [][]string{nil, {"--from", pair.AddrB.Addr().String()}} { // the two ways to open the adapter
		said, o := asks("ndping", "", append([]string{"-c", "3", "-i", "0"}, from...)...)
		if o.status != OK || !strings.Contains(said, "datapath generic") || !strings.Contains(said, "3 answered") {
			t.Errorf("ndping %v: %+v\n%s", from, o, said)
		}
	}
	if o := stop(); o.status != OK {
		t.Errorf("ndping -l: %+v", o)
	}

	sent, got := strings.Repeat("through a broker\n", 100_000), bytes.Buffer{}
	cat := command(t, "ndcat", "-l", at, "--broker", a.socket)
	cat.Stdout = &got
	a.listens(t, "waiting at", cat)
	if said, o := asks("ndcat", sent); o.status != OK {
		t.Errorf("ndcat: %+v\n%s", o, said)
	}
	if o := ended(t, cat); o.status != OK || got.String() != sent {
		t.Errorf("ndcat -l: %+v, %d bytes of %d", o, got.Len(), len(sent))
	}
}
