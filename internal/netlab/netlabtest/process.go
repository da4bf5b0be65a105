package netlabtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return times, total, err
		}
		clock.Reset(stopped)
		<-clock.C
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return times, total, err
		}
		times, total = times+1, total+time.Since(began)
		clock.Reset(going)
	}
}
