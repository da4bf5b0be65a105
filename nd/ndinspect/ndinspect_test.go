package ndinspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPair connects two endpoints over loopback, and returns the adapter of the one that connected.
func newPair(t *testing.T) *nd.Adapter {
	t.Helper()
	cfg := nd.EndpointConfig{Datapath: nd.DatapathUDP, UDPPort: netlabtest.FreePort(t)}
	l, err := nd.Listen(netip.MustParseAddrPort("127.0.0.2:7100"), cfg)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), Datapath: cfg.Datapath, UDPPort: cfg.UDPPort})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(context.Background())
		accepted <- err
	}()
	cfg.Adapter = a
	_, err = nd.Dial(t.Context(), netip.MustParseAddrPort("127.0.0.2:7100"), cfg)
	must(t, errors.Join(err, <-accepted))
	return a
}

// TestAskAnAdapter reads a connection through the socket, which only its owner may use, and which is gone in the end.
func TestAskAnAdapter(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	a := newPair(t)
	s, err := Serve(a, "")
	must(t, err)
	info, err := os.Stat(s.Path())
	must(t, err)
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if dir, err := os.Stat(Directory()); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", dir, err)
	}
	if got := Sockets(); len(got) == 0 || got[0] != s.Path() {
		t.Errorf("%s is not among %v", s.Path(), got)
	}
	c, err := Dial(s.Path())
	must(t, err)
	defer c.Close()
	for range 2 {
		r, err := c.Ask(Request{Peer: netip.MustParseAddr("127.0.0.2")})
		must(t, err)
		if r.PID != os.Getpid() || r.Datapath != "udp" || r.Adapter != netip.MustParseAddr("127.0.0.1") || r.Stats.PacketsOut == 0 {
			t.Errorf("%+v", r)
		}
		if len(r.Connections) != 1 {
			t.Fatalf("%d connections", len(r.Connections))
		}
		x := r.Connections[0]
		sum := time.Duration(0)
		for _, d := range x.Limited.By() {
			sum += d
		}
		if x.State != "open" || x.Remote != netip.MustParseAddrPort("127.0.0.2:7100") || x.Age <= 0 || sum != x.Age || x.BytesOut == 0 {
			t.Errorf("%+v", x)
		}
	}
	r, err := c.Ask(Request{Peer: netip.MustParseAddr("192.0.2.1")})
	must(t, err)
	if len(r.Connections) != 0 {
		t.Errorf("another peer has %d connections", len(r.Connections))
	}
	must(t, s.Close())
	must(t, s.Close())
	if _, err := c.Ask(Request{}); err == nil {
		t.Error("a closed server answers")
	}
	if _, err := Dial(s.Path()); !errors.Is(err, ErrGone) {
		t.Errorf("after the end: %v", err)
	}
	left, err := os.ReadDir(Directory())
	if must(t, err); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestSocketsOfOthers: a socket in use and a file that is none are left alone, and one that is left over makes room.
func TestSocketsOfOthers(t *testing.T) {
	a := newPair(t)
	path := filepath.Join(t.TempDir(), "x.sock")
	s, err := Serve(a, path)
	must(t, err)
	if _, err := Serve(a, path); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("in use: %v", err)
	}
	must(t, s.Close())
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Serve(a, path); err == nil {
		t.Error("a file was replaced")
	}
	must(t, os.Remove(path))
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	if _, err := Dial(path); !errors.Is(err, ErrGone) {
		t.Errorf("left over: %v", err)
	}
	s, err = Serve(a, path)
	must(t, err)
	c, err := Dial(path)
	must(t, err)
	_, err = c.Ask(Request{})
	must(t, errors.Join(err, c.Close()))
	must(t, s.Close())
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestBadRequests: a client of another version is told, and one that sends something else, or no end, is cut off.
func TestBadRequests(t *testing.T) {
	s, err := Serve(newPair(t), filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	exchange := func(line string) (Reply, error) {
		c, err := net.Dial("unix", s.Path())
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		go func() { _, _ = c.Write([]byte(line)) }() // it may be cut off in the middle
		var r Reply
		text, err := bufio.NewReader(c).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		return r, err
	}
	if r, err := exchange(`{"version":2}` + "\n"); err != nil || r.Version != Version || !strings.Contains(r.Error, "version 2") {
		t.Errorf("another version: %+v, %v", r, err)
	}
	for name, line := range map[string]string{"no JSON": "hello\n", "too long": strings.Repeat(" ", 2*maxRequestBytes)} {
		if r, err := exchange(line); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var idle []net.Conn
	for range maxClients + 2 { // more than are served: they wait, and the end comes to all
		c, err := net.Dial("unix", s.Path())
		must(t, err)
		idle = append(idle, c)
	}
	must(t, s.Close())
	for _, c := range idle {
		must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client outlives the server: %v", err)
		}
		c.Close()
	}
}
