package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// nobody is a user without privileges.
const nobody = 65534

// startBroker runs ndbroker for a namespace and a user until stop is called, or the test ends.
func startBroker(t *testing.T, ns *netlab.Namespace, name string, allow int, flags ...string) (socket string, stop func()) {
	t.Helper()
	return startBrokerFor(t, ns, name, append(flags, "--allow-uid", fmt.Sprint(allow))...)
}

// startBrokerFor is startBroker with admission rules.
func startBrokerFor(t *testing.T, ns *netlab.Namespace, name string, rules ...string) (socket string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // closed to other users
		t.Fatal(err)
	}
	socket = broker.At(dir, name)
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	cmd := newRoot()
	cmd.SetArgs(append([]string{
		"--interface", name, "--netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.FD()), "--socket", socket,
	}, rules...))
	cmd.SetOut(in)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, socket) {
		t.Fatalf("ndbroker said %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ndbroker: %v", err)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
	t.Cleanup(stop)
	return socket, stop
}

// process is a client in a separate process.
type process struct {
	cmd    *exec.Cmd
	ready  *bufio.Reader
	stderr bytes.Buffer
}

// startClient starts a client in a namespace, with files as descriptors from 3 on.
func startClient(t *testing.T, ns *netlab.Namespace, role, socket, local, remote string, files ...*os.File) *process {
	t.Helper()
	cmd := clientCommand(t)
	cmd.ExtraFiles = files
	return start(t, ns, cmd, fmt.Sprintf("%s %s %s %s", role, socket, local, remote))
}

// clientCommand returns the command of a user without privileges.
func clientCommand(t *testing.T) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// start starts a command that becomes a client.
func start(t *testing.T, ns *netlab.Namespace, cmd *exec.Cmd, spec string) *process {
	t.Helper()
	p := &process{cmd: cmd}
	p.cmd.Env = append(os.Environ(), clientEnv+"="+spec)
	p.cmd.Dir = "/"
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.ready = bufio.NewReader(out)
	if err := ns.StartProcess(p.cmd); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitReady waits until the client reports that it is ready.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	if line, err := p.ready.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the client ended early: %v, %v\n%s", err, p.cmd.Wait(), &p.stderr)
	}
}

func (p *process) wantSuccess(t *testing.T, who string) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", who, err, &p.stderr)
	}
}

// attached reports whether an XDP program is on the pair's end in ns.
func attached(t *testing.T, ns *netlab.Namespace) (yes bool) {
	t.Helper()
	err := ns.Do(func() error {
		link, err := netlink.LinkByName(netlab.DefaultName)
		if err == nil {
			yes = link.Attrs().Xdp != nil && link.Attrs().Xdp.Attached
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// wantClean waits until the interface has no program, its queue no socket and its port no owner. The broker frees them one after the
// other when it detects the end of its client.
func wantClean(t *testing.T, pair *netlab.Pair) {
	t.Helper()
	open := func() error {
		a, err := nd.OpenAdapter(nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathGeneric})
		if err == nil {
			err = a.Close()
		}
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left, err := attached(t, pair.A), error(nil)
		if !left {
			err = pair.A.Do(open)
		}
		if !left && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a program is still attached: %t; open the interface without a broker: %v", left, err)
		}
	}
}

// TestUnprivilegedNamespaces lets two processes without privileges transfer bytes over AF_XDP, each in a namespace of its own, with a
// lease of a broker each.
func TestUnprivilegedNamespaces(t *testing.T) {
	t.Run("one queue", func(t *testing.T) { moveBetween(t, netlab.PairConfig{}, "") })
	t.Run("many frames", func(t *testing.T) { moveBetween(t, netlab.PairConfig{Queues: 2, MTU: 9000}, "") })
	t.Run("bulk lane", func(t *testing.T) { moveBetween(t, netlab.PairConfig{Offloads: true}, withLane) })
	t.Run("bulk lane of two queues", func(t *testing.T) { moveBetween(t, netlab.PairConfig{Queues: 2, Offloads: true}, withLane) })
}

func moveBetween(t *testing.T, cfg netlab.PairConfig, lane string) {
	pair := netlabtest.Pair(t, cfg)
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socketA, _ := startBroker(t, pair.A, pair.NameA, nobody)
	socketB, _ := startBroker(t, pair.B, pair.NameB, nobody)
	for range 2 { // freed objects can be opened again at once
		server := startClient(t, pair.A, "serve"+lane, socketA, a, b)
		server.awaitReady(t)
		if !attached(t, pair.A) {
			t.Error("the server runs without an XDP program")
		}
		startClient(t, pair.B, "write"+lane, socketB, b, a).wantSuccess(t, "writer")
		server.wantSuccess(t, "server")
	}
	wantClean(t, pair)
}

// TestClientKilled kills a client that has AF_XDP. A client that requested AF_XDP meanwhile was refused, and the next client gets it.
func TestClientKilled(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
	for range 2 {
		p := startClient(t, pair.A, "hold", socket, a, a)
		p.awaitReady(t)
		second := startClient(t, pair.A, "hold"+asksGeneric, socket, a, a)
		if err := second.cmd.Wait(); err == nil || !strings.Contains(second.stderr.String(), "another process has the lease of AF_XDP") {
			t.Errorf("a second client: %v\n%s", err, &second.stderr)
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // killed
	}
	wantClean(t, pair)
}

// TestBrokerEnds stops the broker while a client has a lease.
func TestBrokerEnds(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	socket, stop := startBroker(t, pair.A, pair.NameA, nobody)
	p := startClient(t, pair.A, "outlive", socket, a, a)
	p.awaitReady(t)
	stop()
	p.wantSuccess(t, "client")
	wantClean(t, pair)
}

// TestRefused covers all requests that a broker refuses.
func TestRefused(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	strangers, _ := startBroker(t, pair.A, pair.NameA, nobody-1)
	socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
	other, _ := startBroker(t, pair.A, "lo", nobody)
	for _, c := range []struct {
		name, socket, local, want string
		ns                        *netlab.Namespace
	}{
		{"user", strangers, a, "user 65534 may not use this broker", pair.A},
		{"interface", other, a, "this broker offers lo only", pair.A},
		{"namespace", socket, b, "no interface of this machine", pair.B},
	} {
		p := startClient(t, c.ns, "hold", c.socket, c.local, b)
		if err := p.cmd.Wait(); err == nil || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: %v, %q, want %q", c.name, err, &p.stderr, c.want)
		}
	}
	if attached(t, pair.A) {
		t.Error("a refusal left a program behind")
	}
}

// TestWrongCommandLine: the exit status is that of misuse, and nothing was made.
func TestWrongCommandLine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "broker")
	for _, args := range [][]string{
		{"--socket", socket, "--allow-uid", "1"},
		{"--interface", "eth7", "--socket", socket},
		{"--interface", "eth7", "--socket", socket, "--allow-from", os.DevNull},
		{"--interface", "eth7", "--socket", socket, "--allow-gid", "4294967296"},
		{"--interface", "eth7", "--socket", socket, "--allow-cgroup", "app.service"},
		{"--interface", "eth7", "--socket", socket, "--allow-uid", "4294967296"},
		{"--interface", "eth7", "--socket", socket, "--allow-uid", "1", "--mode", "udp"},
		{"--interface", "eth7", "--socket", socket, "--allow-uid", "1", "--udp-port", "0"},
	} {
		cmd := newRoot()
		cmd.SetArgs(args)
		if status := cli.Run(t.Context(), cmd, io.Discard); status != cli.Misuse {
			t.Errorf("%v: status %d, want %d", args, status, cli.Misuse)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("%v: made a socket (%v)", args, err)
		}
	}
}

// TestNoSuchInterface: the broker fails at its start, because it would refuse every client later.
func TestNoSuchInterface(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "broker")
	cmd := newRoot()
	cmd.SetArgs([]string{"--interface", "nd-none", "--socket", socket, "--allow-uid", "1"})
	var said strings.Builder
	if status := cli.Run(t.Context(), cmd, &said); status != cli.Failed || !strings.Contains(said.String(), "--interface nd-none: ") {
		t.Errorf("status %d: %s", status, &said)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("it made a socket (%v)", err)
	}
}
