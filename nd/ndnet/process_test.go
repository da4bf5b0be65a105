package ndnet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// childPort is the UDP port of a process that reads for a test, in its environment.
const childPort = "NDNET_TEST_UDP_PORT"

// child reads a stream and answers with its checksum, until its standard input ends.
func child(t *testing.T, port string) {
	p, err := strconv.ParseUint(port, 10, 16)
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.2"), UDPPort: uint16(p), Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	n, err := New(a, Config{})
	must(t, err)
	l, err := n.Listen("nd", ":0")
	must(t, err)
	fmt.Printf("listening %s\n", l.Addr())
	c, err := l.Accept()
	must(t, err)
	sum := sha256.New()
	_, err = io.Copy(sum, c)
	must(t, err)
	_, err = c.Write(sum.Sum(nil))
	must(t, err)
	must(t, c.Close())
	must(t, l.Close())
	must(t, n.Wait(context.Background()))
	must(t, a.Close())
}

// A process that is stopped in the middle of a stream, for longer than many time-outs of the transport, goes on where it was.
func TestStoppedProcess(t *testing.T) { stopProcess(t, 1500*time.Millisecond, 0) }

// It does so after half a minute where both ends are set to wait that long, as those of shared adapters are.
func TestProcessStoppedForHalfAMinute(t *testing.T) {
	if testing.Short() && os.Getenv(childPort) == "" {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	stopProcess(t, 30*time.Second, peerTimeout)
}

// stopProcess stops a process that reads a stream for a while. limit is nd.AdapterConfig.PeerTimeout of the writer.
func stopProcess(t *testing.T, stopFor, limit time.Duration) {
	if port := os.Getenv(childPort); port != "" {
		child(t, port)
		return
	}
	port := netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: limit})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{MaxBuffer: 64 << 10})
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childPort, port))
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	lines := bufio.NewScanner(out)
	at := ""
	for at == "" && lines.Scan() {
		at, _ = strings.CutPrefix(lines.Text(), "listening ")
	}
	c, err := n.Dial("nd", at)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(patience)))
	sum, piece := sha256.New(), make([]byte, 100<<10)
	write := func() error {
		k, err := c.Write(piece)
		sum.Write(piece[:k])
		for j := range piece {
			piece[j]++
		}
		return err
	}
	for range 20 {
		must(t, write())
	}
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	must(t, c.SetWriteDeadline(time.Now().Add(stopFor)))
	for err = nil; err == nil; { // the writer waits, for as long as the process is stopped
		err = write()
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	must(t, c.SetWriteDeadline(time.Now().Add(patience)))
	for range 40 {
		must(t, write())
	}
	must(t, c.(*Conn).CloseWrite())
	got, err := io.ReadAll(c)
	must(t, err)
	if !bytes.Equal(got, sum.Sum(nil)) {
		t.Errorf("the process read other bytes than were written: %x", got)
	}
	must(t, c.Close())
	_, _ = io.Copy(io.Discard, out)
	ended = true
	must(t, cmd.Wait())
}
