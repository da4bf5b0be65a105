package ndinspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

func TestMain(m *testing.M) {
	if path := os.Getenv(listenAs); path != "" {
		listenForParent(path)
	}
	dir, err := os.MkdirTemp("", "ndinspect") // a user without a session has no runtime directory
	if err == nil {
		err = os.Setenv("XDG_RUNTIME_DIR", dir)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	status := testhelp.ExitStatus(m.Run())
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// The addresses of the two adapters of a test. The second one listens on listenPort.
var loopback = netlabtest.Loopback()

const listenPort = 7100

// newPair connects two endpoints over loopback, and returns the adapter of the active one.
func newPair(t *testing.T) *nd.Adapter {
	t.Helper()
	cfg := nd.EndpointConfig{Datapath: nd.DatapathUDP, UDPPort: netlabtest.FreePort(t)}
	l, err := nd.Listen(netip.AddrPortFrom(loopback[1], listenPort), cfg)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: loopback[0], Datapath: cfg.Datapath, UDPPort: cfg.UDPPort})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(context.Background())
		accepted <- err
	}()
	cfg.Adapter = a
	_, err = nd.Dial(t.Context(), netip.AddrPortFrom(loopback[1], listenPort), cfg)
	must(t, errors.Join(err, <-accepted))
	return a
}

// pathOf returns the socket of an adapter.
func pathOf(t *testing.T, a *nd.Adapter) string {
	t.Helper()
	path, err := a.Inspection()
	must(t, err)
	return path
}

// TestAskAnAdapter reads a connection through the socket of an adapter. Every adapter has a socket by default, only its owner may
// use it, and it is removed in the end.
func TestAskAnAdapter(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	before := time.Now().Round(0) // on the wall clock
	a := newPair(t)
	path := pathOf(t, a)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if dir, err := os.Stat(Directory()); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", dir, err)
	}
	if got := Sockets(); !slices.Contains(got, path) {
		t.Errorf("%s is not among %v", path, got)
	}
	c, err := Dial(path)
	must(t, err)
	defer c.Close()
	var opened time.Time
	for range 2 {
		r, err := c.Ask(Request{Peer: loopback[1]})
		must(t, err)
		if r.Opened.Before(before) || r.Opened.After(r.At) || !opened.IsZero() && !r.Opened.Equal(opened) {
			t.Errorf("opened at %v, and at %v before: begun %v, asked %v", r.Opened, opened, before, r.At)
		}
		opened = r.Opened
		if r.PID != os.Getpid() || r.Datapath != "udp" || r.Adapter != loopback[0] || r.Stats.Packets.Out == 0 {
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
		if x.State != "open" || x.Remote != netip.AddrPortFrom(loopback[1], listenPort) || x.Age <= 0 || sum != x.Age || x.BytesOut == 0 {
			t.Errorf("%+v", x)
		}
	}
	r, err := c.Ask(Request{Peer: netip.MustParseAddr("192.0.2.1")})
	must(t, err)
	if len(r.Connections) != 0 {
		t.Errorf("another peer has %d connections", len(r.Connections))
	}
	must(t, a.Close())
	must(t, a.Close())
	if _, err := c.Ask(Request{}); err == nil {
		t.Error("a closed adapter answers")
	}
	if _, err := Dial(path); !errors.Is(err, ErrGone) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left over: %v", err)
	}
}

// TestReplyHasEveryField: the names in an adapter's answer are exactly those in Reply.
func TestReplyHasEveryField(t *testing.T) {
	path := pathOf(t, newPair(t))
	conn, err := net.Dial("unix", path)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, `{"version":%d,"flight":true}`+"\n", Version)
	must(t, err)
	var said json.RawMessage
	must(t, json.NewDecoder(conn).Decode(&said))
	strict := json.NewDecoder(bytes.NewReader(said))
	strict.DisallowUnknownFields()
	var r Reply
	must(t, strict.Decode(&r))
	again, err := json.Marshal(r)
	must(t, err)
	var one, two map[string]any
	must(t, errors.Join(json.Unmarshal(said, &one), json.Unmarshal(again, &two)))
	if !reflect.DeepEqual(one, two) {
		t.Errorf("it said %s\nand that became %s", said, again)
	}
	for _, name := range regexp.MustCompile(`"([^"]+)":`).FindAllStringSubmatch(string(said), -1) {
		if strings.Trim(name[1], "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("the name %q is not like the others", name[1])
		}
	}
	if !strings.Contains(r.Flight, "receive queue 0: the engine's last ") || !strings.Contains(r.Flight, "state ") || r.Interface == "" || r.Queues != 1 {
		t.Errorf("%s", said)
	}
}

// TestAdapterNotShown: an adapter that is configured to be hidden has no socket. If the path of a socket cannot be created, the
// adapter is not opened.
func TestAdapterNotShown(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	cfg := nd.AdapterConfig{Address: loopback[0], Datapath: nd.DatapathUDP, UDPPort: netlabtest.FreePort(t), Inspect: nd.InspectOff}
	a, err := nd.OpenAdapter(cfg)
	must(t, err)
	if path, err := a.Inspection(); err == nil || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	must(t, a.Close())
	if made, _ := filepath.Glob(filepath.Join(Directory(), "*.sock")); len(made) > 0 { // the pattern is valid
		t.Errorf("sockets were made: %v", made)
	}
	cfg.Inspect = "/dev/null/x.sock"
	if _, err := nd.OpenAdapter(cfg); !errors.Is(err, nd.ErrInsufficientResources) {
		t.Errorf("a path that cannot be made: %v", err)
	}
	must(t, os.RemoveAll(Directory()))             // an ordinary user has the reset key in this directory
	must(t, os.WriteFile(Directory(), nil, 0o600)) // a file in place of the directory
	cfg.Inspect = ""
	if a, err = nd.OpenAdapter(cfg); err != nil {
		t.Fatalf("a default path that cannot be made: %v", err)
	}
	if _, err := a.Inspection(); err == nil || !strings.Contains(err.Error(), "mkdir "+Directory()) {
		t.Errorf("why there is none: %v", err)
	}
	must(t, a.Close())
}

// TestAskAll: an adapter that closes without an answer has ended, which is not an error. Processes that never answer delay the
// others by one time-out, however many they are, and each is reported as such.
func TestAskAll(t *testing.T) {
	dir := t.TempDir()
	const silent = 8
	sockets := []string{filepath.Join(dir, "gone.sock")}
	for i := range silent {
		path := filepath.Join(dir, fmt.Sprintf("%d.sock", i))
		l, err := net.Listen("unix", path) // accepts connections and does not answer
		must(t, err)
		defer l.Close()
		sockets = append(sockets, path)
	}
	a, err := nd.OpenAdapter(nd.AdapterConfig{
		Address: loopback[0], UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP, Inspect: filepath.Join(dir, "honest.sock"),
	})
	must(t, err)
	defer a.Close()
	sockets = append(sockets, filepath.Join(dir, "honest.sock"))
	begin := time.Now()
	all := AskAll(t.Context(), sockets, Request{})
	if took := time.Since(begin); took >= silent*inspect.ReplyTimeout {
		t.Errorf("it took %v, as if the processes were queried one by one", took)
	}
	for i, answer := range all {
		honest := i == len(all)-1
		if answer.Socket != sockets[i] || (answer.Err == nil) != honest || (answer.Reply != nil) != honest || errors.Is(answer.Err, ErrGone) != (i == 0) {
			t.Errorf("%d: %+v", i, answer)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, answer := range AskAll(ctx, sockets, Request{}) {
		if !errors.Is(answer.Err, context.Canceled) || answer.Socket != sockets[i] {
			t.Errorf("canceled: %d: %+v", i, answer)
		}
	}
}

func TestProcessEndsMeanwhile(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	must(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // if data were unread, the client would see a reset
			_ = c.Close()
		}
	}()
	c, err := Dial(l.Addr().String())
	must(t, err)
	defer c.Close()
	if r, err := c.Ask(Request{}); !errors.Is(err, ErrGone) {
		t.Errorf("%v, %v", r, err)
	}
}
