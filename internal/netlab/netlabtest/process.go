package netlabtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// Build builds the program in a directory, removes it at the end of the test, and skips the test without root, because the program
// is for a namespace.
func Build(t testing.TB, dir string) (program string) {
	t.Helper()
	NeedRoot(t)
	program = filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, out)
	}
	return program
}

// Process is a program that answers each line with a line.
type Process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// Start starts a program in a namespace. It is killed at the end of the test unless End was called.
func Start(t testing.TB, ns *netlab.Namespace, program string, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.CommandContext(t.Context(), program, args...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = ns.StartProcess(p.cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	return p
}

// Ask sends a line to the process and returns its answer.
func (p *Process) Ask(t testing.TB, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
	if !p.lines.Scan() {
		t.Fatalf("%s: the process does not answer: %v", line, p.lines.Err())
	}
	return p.lines.Text()
}

// End ends the process and waits for it.
func (p *Process) End(t testing.TB) {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Stop stops a child process (SIGSTOP) and returns when it is stopped. The signal alone does not say that: on another processor the
// process runs on until the signal arrives.
func Stop(t testing.TB, child *os.Process) {
	t.Helper()
	if err := stop(child); err != nil {
		t.Fatalf("stop process %d: %v", child.Pid, err)
	}
}

// stop is Stop without a test.
func stop(child *os.Process) error {
	if err := child.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) // does not take the end from child
		if err != unix.EINTR {
			return err
		}
	}
}

// StopAndGo alternately stops the process (SIGSTOP) for stopped and lets it run for going, until ctx ends. It returns how often and
// how long the process was stopped. The process runs afterwards.
func (p *Process) StopAndGo(ctx context.Context, stopped, going time.Duration) (times int, total time.Duration, err error) {
	clock := time.NewTimer(going)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return times, total, nil
		case <-clock.C:
		}
		began := time.Now()
		if err := stop(p.cmd.Process); err != nil {
			return times, total, err
		}
		clock.Reset(stopped)
		<-clock.C
		if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
			return times, total, err
		}
		times, total = times+1, total+time.Since(began)
		clock.Reset(going)
	}
}
