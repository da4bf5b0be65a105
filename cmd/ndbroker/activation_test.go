package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// brokerRole is the prefix of a role string that makes a child process run ndbroker. The arguments follow the prefix.
const brokerRole = "ndbroker "

// brokerProcess is an ndbroker in a separate process.
type brokerProcess struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr bytes.Buffer
}

// startActivated starts ndbroker as a service manager does, with a listening socket.
func startActivated(t *testing.T, ns *netlab.Namespace, name string, l *net.UnixListener, args ...string) *brokerProcess {
	t.Helper()
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	p := &brokerProcess{cmd: exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID=$$ exec /proc/self/fd/4")}
	args = append([]string{"--interface", name, "--netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.FD())}, args...)
	p.cmd.Env = append(os.Environ(), "LISTEN_FDS=1", clientEnv+"="+brokerRole+strings.Join(args, " "))
	p.cmd.ExtraFiles = []*os.File{socket, program}
	p.start(t)
	return p
}

// start starts the process and keeps its output.
func (p *brokerProcess) start(t *testing.T) {
	t.Helper()
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(out)
}

// want reads lines until one contains the text.
func (p *brokerProcess) want(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("ndbroker never said %q: %v, %v\n%s", text, err, p.cmd.Wait(), &p.stderr)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

func (p *brokerProcess) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutCapabilities: a broker that can open nothing reports at the start that it will refuse every client, and names the missing
// capabilities for its mode.
func TestWithoutCapabilities(t *testing.T) {
	netlabtest.NeedRoot(t)
	for mode, want := range map[string]string{"auto": "refused: missing CAP_NET_RAW (", "ring": "refused: missing CAP_NET_ADMIN ("} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil { // the listener is not root
			t.Fatal(err)
		}
		p := &brokerProcess{cmd: clientCommand(t)}
		p.cmd.Env = append(os.Environ(), clientEnv+"="+brokerRole+"--interface lo --allow-uid 1 --mode "+mode+" --socket "+filepath.Join(dir, "broker"))
		p.start(t)
		p.want(t, want)
		p.signal(t, os.Interrupt)
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", mode, err, &p.stderr)
		}
	}
}

// listenAsManager listens where clients look for a broker.
func listenAsManager(t *testing.T, kind string) *net.UnixListener {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // closed to other users
		t.Fatal(err)
	}
	l, err := net.ListenUnix(kind, &net.UnixAddr{Name: filepath.Join(dir, "broker"), Net: kind})
	if err == nil {
		t.Cleanup(func() { l.Close() })
		err = os.Chmod(l.Addr().String(), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestSocketActivation: a client that connects before the broker runs is served by the broker that is started for it. The socket is still
// there for the next broker when this broker ends. A reload changes who is admitted, and ends no lease.
func TestSocketActivation(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	l := listenAsManager(t, "unixpacket")
	socket := l.Addr().String()
	rules := filepath.Join(t.TempDir(), "rules")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("# who may\n\n%d # nobody\n", nobody))
	client := startClient(t, pair.A, "hold", socket, a, a)
	broker := startActivated(t, pair.A, pair.NameA, l, "--allow-from", rules)
	broker.want(t, fmt.Sprintf("for uid %d at %s", nobody, socket))
	client.awaitReady(t)

	for _, c := range []struct{ text, say string }{
		{"1\neverybody\n", fmt.Sprintf("still for uid %d: --allow-from %s: line 2: \"everybody\" is no rule", nobody, rules)},
		{"# nobody\n", "now for nobody"},
		{"1\ngid 2\n", "now for uid 1, gid 2"},
	} {
		write(c.text)
		broker.signal(t, syscall.SIGHUP)
		broker.want(t, c.say)
	}
	second := startClient(t, pair.A, "hold", socket, a, a)
	if err := second.cmd.Wait(); err == nil || !strings.Contains(second.stderr.String(), "may not use this broker") {
		t.Errorf("a user that was taken out: %v\n%s", err, &second.stderr)
	}
	if !attached(t, pair.A) {
		t.Error("the reload ended a lease")
	}

	broker.signal(t, syscall.SIGTERM)
	if err := broker.cmd.Wait(); err != nil {
		t.Errorf("ndbroker: %v\n%s", err, &broker.stderr)
	}
	if err := client.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = client.cmd.Wait() // killed
	next := startClient(t, pair.A, "hold", socket, a, a)
	broker = startActivated(t, pair.A, pair.NameA, l, "--allow-uid", fmt.Sprint(nobody))
	next.awaitReady(t)
	if err := next.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = next.cmd.Wait() // killed
	broker.want(t, "given back")
	broker.signal(t, syscall.SIGTERM)
	_ = broker.cmd.Wait() // its end was checked above
	wantClean(t, pair)
}

// TestWrongActivation: a socket that a broker cannot serve is refused in one line.
func TestWrongActivation(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, c := range []struct{ kind, socket, want string }{
		{"unix", "", "set ListenSequentialPacket in the socket unit"},
		{"unixpacket", "/elsewhere", "the service manager listens at"},
	} {
		args := []string{"--allow-uid", "1"}
		if c.socket != "" {
			args = append(args, "--socket", c.socket)
		}
		p := startActivated(t, pair.A, pair.NameA, listenAsManager(t, c.kind), args...)
		if line, _ := p.lines.ReadString('\n'); line != "" {
			t.Errorf("%s: it works, and says %q", c.kind, line)
			p.signal(t, syscall.SIGKILL)
		}
		if err := p.cmd.Wait(); err == nil || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: %v, %q, want %q", c.kind, err, &p.stderr, c.want)
		}
	}
}
