package nd

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// returningEnv makes TestProcessThatReturns the process that is killed. It has the process's address, its UDP port, and the address
// to connect to.
const returningEnv = "NDXDP_TEST_RETURNING"

// returningPort is the ND port that the process connects from each time.
const returningPort = 7001

// A process that is killed and restarted is accepted within a second from the same ND port. The peer ends the connection of its
// predecessor with all outstanding requests.
func TestProcessThatReturns(t *testing.T) {
	if args := os.Getenv(returningEnv); args != "" {
		returningProcess(t, strings.Fields(args))
		return
	}
	if os.Geteuid() != 0 {
		t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	}
	addr, port := netlabtest.Loopback(), netlabtest.FreePort(t)
	a, err := OpenAdapter(AdapterConfig{Address: addr[0], UDPPort: port, Datapath: DatapathUDP})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	if own := a.Datapath().OwnResetKey; own != "" {
		t.Fatalf("the adapter does not have the host's key: %s", own)
	}
	l, at := listen(t, a, 4)
	serve := func() (*end, func(), time.Duration) {
		kill, lines := startReturning(t, addr[1], port, at)
		e := newEnd(t, a, 1<<16)
		must(t, l.GetConnectionRequest(t.Context(), e.ctr))
		must(t, e.accept(t.Context()))
		if !lines.Scan() {
			t.Fatalf("the process says nothing: %v", lines.Err())
		}
		took, err := time.ParseDuration(lines.Text())
		must(t, err)
		return e, kill, took
	}
	first, kill, _ := serve()
	must(t, first.qp.Receive(1, []SGE{first.mr.SGE(0, 64)}))
	kill()
	second, kill, took := serve()
	defer kill()
	if took > 4*time.Second { // a second at most on an idle machine; a silent peer is lost after 5 s anyway
		t.Errorf("the process that returned was accepted after %v", took)
	}
	first.wantResult(t, 1, RequestReceive, ErrCanceled)
	must(t, first.ctr.NotifyDisconnect(t.Context()))

	// The next process does not use the same port. A Send to the killed process ends by the RST of its successor.
	must(t, second.qp.Receive(1, []SGE{second.mr.SGE(0, 64)}))
	kill()
	kill, _ = startReturning(t, addr[1], port, netip.AddrPort{})
	defer kill()
	must(t, second.qp.Send(2, []SGE{second.mr.SGE(0, 1000)}, 0))
	second.wantResult(t, 2, RequestSend, ErrCanceled) // with silence alone the status would be ErrIOTimeout
	second.wantResult(t, 1, RequestReceive, ErrCanceled)
}

// startReturning starts the process and waits until its adapter is open. It returns how to kill it, and its further output.
func startReturning(t *testing.T, addr netip.Addr, port uint16, to netip.AddrPort) (kill func(), lines *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestProcessThatReturns$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", returningEnv, addr, port, to))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	stay, err := cmd.StdinPipe() // the process lives until this pipe is closed
	must(t, err)
	must(t, cmd.Start())
	lines = bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the process has no adapter: %q", lines.Text())
	}
	return func() {
		_ = cmd.Process.Kill() // the process may be dead already
		_ = cmd.Wait()         // returns an error, because the process was killed
		_ = stay.Close()
	}, lines
}

// returningProcess connects from its port, prints how long that took, and waits to be killed.
func returningProcess(t *testing.T, args []string) {
	port, err := strconv.ParseUint(args[1], 10, 16)
	must(t, err)
	a, err := OpenAdapter(AdapterConfig{Address: netip.MustParseAddr(args[0]), UDPPort: uint16(port), Datapath: DatapathUDP})
	must(t, err)
	fmt.Println("open")
	if to, err := netip.ParseAddrPort(args[2]); err == nil {
		e := newEnd(t, a, 1<<16)
		must(t, e.ctr.Bind(netip.AddrPortFrom(a.verbs.Addr, returningPort)))
		began := time.Now()
		must(t, e.ctr.Connect(t.Context(), e.qp, to, helloParams))
		took := time.Since(began)
		must(t, e.ctr.CompleteConnect(t.Context()))
		fmt.Println(took)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the end of the process
}
