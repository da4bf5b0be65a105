package ndinspect

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// listenAs is an environment variable that makes the test binary listen at a path without answering.
const listenAs = "NDINSPECT_TEST_LISTEN"

// listenForParent is the child of TestStoppedProcess.
func listenForParent(path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
	_ = l.Close()
	os.Exit(0)
}

func TestStoppedProcessIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped.sock")
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), listenAs+"="+path)
	stdin, err := child.StdinPipe()
	must(t, err)
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	defer func() {
		_ = child.Process.Signal(syscall.SIGCONT) // the child may have ended
		_ = stdin.Close()
		_ = child.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "listening\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	netlabtest.Stop(t, child.Process)
	a := AskAll(t.Context(), []string{path}, Request{})[0]
	want := fmt.Sprintf("process %d is stopped", child.Process.Pid)
	if a.Err == nil || !strings.Contains(a.Err.Error(), want) || errors.Is(a.Err, os.ErrDeadlineExceeded) {
		t.Errorf("a stopped process: %v, want %q", a.Err, want)
	}
}

// A process on a busy machine may need longer than StoppedAfter between two parts of a reply. The reply as a whole has ReplyTimeout.
func TestReplyInParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slow.sock")
	l, err := net.Listen("unix", path)
	must(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = conn.Write([]byte("{"))
		<-time.After(2 * inspect.StoppedAfter) // longer than the client waits before it looks at the process
		_, _ = fmt.Fprintf(conn, `"version":%d}`+"\n", Version)
		_, _ = conn.Read(make([]byte, 1)) // until the client closes
	}()
	if _, err := askOnce(path, Request{}); err != nil {
		t.Errorf("a reply in two parts: %v", err)
	}
}
