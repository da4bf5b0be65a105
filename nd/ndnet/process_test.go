package ndnet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
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

// childPort is an environment variable with the UDP port of a process that reads for a test.
const childPort = "NDNET_TEST_UDP_PORT"

// child reads a stream and answers with its checksum, until its standard input ends.
func child(t *testing.T, port string) {
	p, err := strconv.ParseUint(port, 10, 16)
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: uint16(p), Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
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

// startChild executes this test in another process that listens there, and ends the process with the test. The output ends with the
// process.
func startChild(t *testing.T, port uint16) (cmd *exec.Cmd, out io.Reader, at string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childPort, port))
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	lines := bufio.NewScanner(out)
	for at == "" && lines.Scan() {
		at, _ = strings.CutPrefix(lines.Text(), "listening ")
	}
	return cmd, out, at
}

// A silent peer counts as dead when the configured number of keep-alives is unanswered, however long the transport would wait.
func TestKeepAliveEndsTheConnection(t *testing.T) {
	if port := os.Getenv(childPort); port != "" {
		child(t, port)
		return
	}
	port := netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{})
	must(t, err)
	cmd, _, at := startChild(t, port)
	dialed, err := n.Dial("nd", at)
	must(t, err)
	c := dialed.(*Conn)
	netlabtest.Stop(t, cmd.Process)
	must(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Millisecond, Interval: 10 * time.Millisecond, Count: 3}))
	begin := time.Now()
	must(t, c.SetReadDeadline(begin.Add(patience)))
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) || !errors.Is(err, errKeepAlive) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the peer is stopped, and Read returned %v", err)
	}
	if took := time.Since(begin); took >= peerTimeout {
		t.Errorf("it took %v, as long as the transport waits", took)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("Write returned %v", err)
	}
	must(t, c.Close())
}

// The peer of a killed process gets the cause in its error: ECONNRESET, because the kernel reports that the process's UDP port is
// closed.
func TestKilledProcess(t *testing.T) {
	if port := os.Getenv(childPort); port != "" {
		child(t, port)
		return
	}
	port := netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{})
	must(t, err)
	cmd, _, at := startChild(t, port)
	c, err := n.Dial("nd", at)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(patience)))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it returns an error, because the process was killed
	_, err = c.Write([]byte("x"))
	if err == nil { // the data were sent before the death was known
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer was killed, and the end is %v", err)
	}
	_ = c.Close() // the written data never arrived
}

// A process that is stopped during a stream, for longer than many retransmission time-outs, continues afterwards.
func TestStoppedProcess(t *testing.T) { stopProcess(t, 1500*time.Millisecond, 0) }

// It continues after half a minute if both sides are configured to wait that long, as shared adapters are.
func TestProcessStoppedForHalfAMinute(t *testing.T) {
	if testing.Short() && os.Getenv(childPort) == "" {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	stopProcess(t, 30*time.Second, peerTimeout)
}

// stopProcess stops a process that reads a stream for stopFor. limit is nd.AdapterConfig.PeerTimeout of the writer.
func stopProcess(t *testing.T, stopFor, limit time.Duration) {
	if port := os.Getenv(childPort); port != "" {
		child(t, port)
		return
	}
	port := netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: limit})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{MaxBuffer: 64 << 10})
	must(t, err)
	cmd, out, at := startChild(t, port)
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
	netlabtest.Stop(t, cmd.Process)
	must(t, c.SetWriteDeadline(time.Now().Add(stopFor)))
	for err = nil; err == nil; { // the writer waits while the process is stopped
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
	must(t, cmd.Wait())
}
