package ndnet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// serverPorts is an environment variable with the address, the UDP port and the ND port of a server process of a test.
const serverPorts = "NDNET_TEST_SERVER_PORTS"

// The address that the servers of a test share, and the address of its client.
var serversAt, clientAt = netlabtest.Loopback()[0], netlabtest.Loopback()[0]

// serve answers each message of each stream with its checksum, until its standard input ends.
func serve(t *testing.T, ports string) {
	var at string
	var udp, port uint16
	_, err := fmt.Sscanf(ports, "%s %d %d", &at, &udp, &port)
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(at), UDPPort: udp})
	must(t, err)
	defer a.Close()
	n, err := New(a, Config{})
	must(t, err)
	l, err := n.Listen("nd", fmt.Sprintf(":%d", port))
	must(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func answer(c net.Conn) {
	defer c.Close()
	for {
		var length [4]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		sum := sha256.New()
		if _, err := io.CopyN(sum, c, int64(binary.BigEndian.Uint32(length[:]))); err != nil {
			return
		}
		if _, err := c.Write(sum.Sum(nil)); err != nil {
			return
		}
	}
}

// ask sends n bytes and compares the checksum in the answer.
func ask(c net.Conn, n int, seed byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	for i := range n {
		b = append(b, seed+byte(i*i>>3))
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	got, want := make([]byte, sha256.Size), sha256.Sum256(b[4:])
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want[:]) {
		return errors.New("other bytes arrived than were sent")
	}
	return nil
}

// server is a server process.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// startServer starts a process that serves at an ND port of serversAt.
func startServer(t *testing.T, udp, port uint16) *server {
	t.Helper()
	return startServerAt(t, (*exec.Cmd).Start, serversAt, udp, port)
}

func startServerAt(t *testing.T, start func(*exec.Cmd) error, at netip.Addr, udp, port uint16) *server {
	t.Helper()
	s := &server{cmd: exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")}
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", serverPorts, at, udp, port))
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	s.in, err = s.cmd.StdinPipe()
	must(t, err)
	must(t, start(s.cmd))
	t.Cleanup(s.kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "serving" {
			return s
		}
	}
	t.Fatal("a server did not start")
	return nil
}

// newClient opens an adapter on the client's address.
func newClient(t *testing.T, udp uint16) *Network {
	t.Helper()
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: clientAt, UDPPort: udp, Datapath: nd.DatapathUDP})
	must(t, err)
	n, err := New(a, Config{MaxBuffer: 64 << 10})
	must(t, err)
	t.Cleanup(func() {
		must(t, n.Wait(context.Background()))
		must(t, a.Close())
	})
	return n
}

func dialTo(n *Network, port uint16) (net.Conn, error) {
	return n.Dial("nd", net.JoinHostPort(serversAt.String(), strconv.Itoa(int(port))))
}

// Three processes serve ND ports of one address (PROTOCOL §7.8), and streams to each carry the right data. The process with the
// well-known port is killed during a hundred handshakes with the others. These succeed, and open connections are not affected.
func TestProcessesShareAnAddress(t *testing.T) {
	if ports := os.Getenv(serverPorts); ports != "" {
		serve(t, ports)
		return
	}
	udp := netlabtest.FreePort(t)
	servers := map[uint16]*server{}
	for _, port := range []uint16{7001, 7002, 7003} {
		servers[port] = startServer(t, udp, port)
	}
	n := newClient(t, udp)
	open := map[uint16]net.Conn{}
	for port := range servers {
		c, err := dialTo(n, port)
		if err != nil {
			t.Fatalf("to port %d: %v", port, err)
		}
		defer c.Close()
		must(t, ask(c, 300<<10, byte(port)))
		open[port] = c
	}
	// Between two owners the well-known port is closed. A REQ that is repeated twice meanwhile is refused (PROTOCOL §7.7), which
	// happens if the next owner waits for a processor.
	end := time.Now().Add(patience)
	const dials = 100
	var all sync.WaitGroup
	failed, began := make(chan error, dials), make(chan struct{}, dials)
	for i := range dials {
		all.Go(func() {
			began <- struct{}{}
			c, err := dialTo(n, uint16(7002+i%2))
			for errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end) {
				c, err = dialTo(n, uint16(7002+i%2))
			}
			if err == nil {
				err = ask(c, 1000, byte(i))
				c.Close()
			}
			failed <- err
		})
	}
	for range dials / 2 {
		<-began
	}
	servers[7001].kill()
	for _, port := range []uint16{7002, 7003} {
		must(t, ask(open[port], 300<<10, 1))
	}
	all.Wait()
	for range dials {
		if err := <-failed; err != nil {
			t.Errorf("a handshake while the holder of the well-known port ended: %v", err)
		}
	}
	must(t, ask(open[7002], 1000, 2))
	again := startServer(t, udp, 7001) // the ND port is free again
	c, err := dialTo(n, 7001)
	must(t, err)
	must(t, ask(c, 1000, 3))
	c.Close()
	again.kill()
}

// An ND port of another process is in use. All other ports of the address are free.
func TestPortOfAnotherProcess(t *testing.T) {
	if ports := os.Getenv(serverPorts); ports != "" {
		serve(t, ports)
		return
	}
	udp := netlabtest.FreePort(t)
	s := startServer(t, udp, 7001)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: serversAt, UDPPort: udp})
	must(t, err)
	defer a.Close()
	if info := a.Datapath(); info.Datapath != nd.DatapathUDP || info.Reason == "" {
		t.Errorf("the datapath of the second process: %+v", info)
	}
	bind := func(port uint16) error {
		l, err := a.CreateListener()
		must(t, err)
		defer l.Close()
		return l.Bind(netip.AddrPortFrom(serversAt, port))
	}
	if err := bind(7001); !errors.Is(err, nd.ErrSharingViolation) || !strings.Contains(err.Error(), "another adapter of this machine has ND port 7001") {
		t.Errorf("a port of another process: %v", err)
	}
	must(t, bind(7002))
	s.kill()
	must(t, bind(7001))
}

// Eight processes serve on one side of a veth pair, and one process has eight adapters on the other side. The first adapter on each
// side uses AF_XDP, and the others use plain sockets. All streams carry the right data concurrently.
func TestEightProcessesOnOneInterface(t *testing.T) {
	if ports := os.Getenv(serverPorts); ports != "" {
		serve(t, ports)
		return
	}
	const processes = 8
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := pair.AddrB.Addr()
	var all sync.WaitGroup
	failed := make(chan error, processes)
	for i := range processes {
		port := uint16(7001 + i)
		startServerAt(t, pair.B.StartProcess, at, nd.DefaultUDPPort, port)
		var a *nd.Adapter
		must(t, pair.A.Do(func() (err error) {
			a, err = nd.OpenAdapter(nd.AdapterConfig{Address: pair.AddrA.Addr()})
			return err
		}))
		if want, got := i == 0, !a.Datapath().Datapath.OverSockets(); got != want {
			t.Errorf("adapter %d has %+v", i, a.Datapath())
		}
		n, err := New(a, Config{})
		must(t, err)
		t.Cleanup(func() {
			must(t, n.Wait(context.Background()))
			must(t, a.Close())
		})
		all.Go(func() {
			c, err := n.Dial("nd", net.JoinHostPort(at.String(), strconv.Itoa(int(port))))
			if err == nil {
				defer c.Close()
				for range 4 {
					err = errors.Join(err, ask(c, 1<<20, byte(port)))
				}
			}
			failed <- err
		})
	}
	all.Wait()
	for range processes {
		must(t, <-failed)
	}
}
