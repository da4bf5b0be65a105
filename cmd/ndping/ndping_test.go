package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

// log is output that a test can wait for.
type log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	waiting chan struct{} // closed at the first line
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() == 0 {
		close(l.waiting)
	}
	return l.text.Write(b)
}

// run runs the command in a namespace, and writes its output to out.
func run(ctx context.Context, where func(func() error) error, out io.Writer, args ...string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	return where(func() error { return root.ExecuteContext(ctx) })
}

func here(f func() error) error { return f() }

// pingBetween runs a listener and a client, and returns the output of both.
func pingBetween(t *testing.T, near, far func(func() error) error, at string, both []string, args ...string) (client, server string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, ended := &log{waiting: make(chan struct{})}, make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- run(serving, far, said, append([]string{"-l", at}, both...)...) }()
	select {
	case <-said.waiting:
	case err := <-ended:
		t.Fatal("the listener ended: ", err)
	}
	var out bytes.Buffer
	must(t, run(ctx, near, &out, append(append([]string{at}, both...), args...)...))
	stop()
	must(t, <-ended)
	return out.String(), said.text.String()
}

func wantSaid(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

func TestPingOverLoopback(t *testing.T) {
	addr := netlabtest.Loopback()
	client, server := pingBetween(t, here, here, addr[1].String()+":7000", []string{"--udp-port", fmt.Sprint(netlabtest.FreePort(t)), "--datapath", "udp"},
		"--from", addr[0].String(), "-c", "3", "-i", "1ms", "-s", "64-256")
	wantSaid(t, client, "datapath udp", "64 bytes, message 1: ", "256 bytes, message 9: ", "128 bytes: 3 sent, 3 answered, 0 % unanswered; round trip min",
		"p99", "packets out")
	wantSaid(t, server, "answering at "+addr[1].String()+":7000", "connected", "after 9 messages")
}

// Both ends poll, so on a busy machine the scheduler decides how long an answer of a mebibyte takes. With the default time-out of 2 s,
// the test would depend on the machine. With --json each line of either side is an object with the name of its event.
func TestPingAsJSON(t *testing.T) {
	both := []string{"--udp-port", fmt.Sprint(netlabtest.FreePort(t)), "--datapath", "udp", "--json"}
	addr := netlabtest.Loopback()
	client, server := pingBetween(t, here, here, addr[1].String()+":7300", both, "--from", addr[0].String(), "-c", "2", "-i", "0")
	for text, want := range map[string][]string{
		client: {"connected", "answer", "answer", "summary", "packets"},
		server: {"answering", "peer", "left"},
	} {
		var events []string
		for line := range strings.Lines(text) {
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			events = append(events, e.Event)
			if e.Event == "summary" && (e.Counts == nil || *e.Counts != Counts{2, 2} || e.Trips == nil || e.P50 <= 0 || e.Bytes != 64) {
				t.Errorf("the summary is %s", line)
			}
		}
		if !slices.Equal(events, want) {
			t.Errorf("the events are %v, want %v", events, want)
		}
	}
}

func TestPingOverVeth(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000).String()
	client, _ := pingBetween(t, pair.A.Do, pair.B.Do, at, []string{"--poll"}, "-c", "5", "-i", "0", "-q", "-s", "8,1M", "-W", "1m")
	wantSaid(t, client, "datapath tcx", "8 bytes: 5 sent, 5 answered", "1048576 bytes: 5 sent, 5 answered")
	if strings.Contains(client, "message 1") {
		t.Errorf("quiet says too much:\n%s", client)
	}
}

// Several adapters share one interface, each with its own datapath: on each side two that listen and one that connects (PROTOCOL §7.8).
// The first adapter has AF_XDP, and all others have plain sockets.
func TestPingBesideServers(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	ctx, stop := context.WithCancel(t.Context())
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer stop()
	listen := func(at string) {
		said := &log{waiting: make(chan struct{})}
		listeners.Go(func() {
			if err := run(ctx, pair.B.Do, said, "-l", at); err != nil {
				t.Errorf("listener at %s: %v", at, err)
			}
		})
		<-said.waiting
	}
	first, second := netip.AddrPortFrom(pair.AddrB.Addr(), 7000).String(), netip.AddrPortFrom(pair.AddrB.Addr(), 7001).String()
	listen(first)
	listen(second)
	for _, at := range []string{first, second} {
		var out bytes.Buffer
		must(t, run(ctx, pair.A.Do, &out, at, "-c", "5", "-i", "0", "-s", "8,100k", "-W", "1m"))
		wantSaid(t, out.String(), "datapath tcx", "8 bytes: 5 sent, 5 answered", "5 sent, 5 answered")
	}
	client, _ := pingBetween(t, pair.B.Do, pair.A.Do, netip.AddrPortFrom(pair.AddrA.Addr(), 7002).String(), nil, "-c", "5", "-i", "0", "-s", "8", "-W", "1m")
	wantSaid(t, client, "datapath ring: another adapter of this machine has UDP port", "8 bytes: 5 sent, 5 answered")
}

// If a peer connects and never answers, every message times out, and the exit status says so.
func TestPingUnanswered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port := netlabtest.FreePort(t)
	addr := netlabtest.Loopback()
	at := netip.AddrPortFrom(addr[1], 7000)
	l, err := nd.Listen(at, nd.EndpointConfig{Datapath: nd.DatapathUDP, UDPPort: port})
	must(t, err)
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx)
		accepted <- err
	}()
	var out bytes.Buffer
	err = run(ctx, here, &out, at.String(), "--from", addr[0].String(), "--udp-port", fmt.Sprint(port), "--datapath", "udp", "-c", "2", "-i", "1ms", "-W", "50ms")
	if !errors.Is(err, errSilent) {
		t.Errorf("it ended with %v", err)
	}
	must(t, <-accepted)
	wantSaid(t, out.String(), "message 1: no answer in 50ms", "64 bytes: 2 sent, 0 answered, 100 % unanswered\n")
}

func TestPingIsRefused(t *testing.T) {
	port, addr := netlabtest.FreePort(t), netlabtest.Loopback()
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: addr[1], UDPPort: port, Datapath: nd.DatapathUDP})
	must(t, err)
	defer a.Close()
	err = run(t.Context(), here, io.Discard, addr[1].String()+":7000", "--from", addr[0].String(), "--udp-port", fmt.Sprint(port), "--datapath", "udp", "-c", "1")
	if !errors.Is(err, nd.ErrConnectionRefused) {
		t.Errorf("it ended with %v", err)
	}
}

func TestWrongValuesAreMisuse(t *testing.T) {
	for _, args := range [][]string{{"-c", "-1"}, {"-W", "0"}, {"-s", ""}, {"-s", "7"}, {"-i", "-1"}} {
		root := newRoot()
		root.SetArgs(append([]string{"127.0.0.2:7000", "--from", "127.0.0.1", "--datapath", "udp"}, args...))
		root.SetOut(io.Discard)
		if status := cli.Run(t.Context(), root, io.Discard); status != cli.Misuse {
			t.Errorf("%q: status %d", args, status)
		}
	}
}

// TestListenerSaysWhichPortItGot: port 0 selects a free port, which the listener prints.
func TestListenerSaysWhichPortItGot(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, ended := &log{waiting: make(chan struct{})}, make(chan error, 1)
	at := netlabtest.Loopback()[0].String()
	go func() {
		ended <- run(ctx, here, said, "-l", at+":0", "--udp-port", fmt.Sprint(netlabtest.FreePort(t)), "--datapath", "udp")
	}()
	select {
	case <-said.waiting:
	case err := <-ended:
		t.Fatal("the listener ended: ", err)
	}
	stop()
	must(t, <-ended)
	if text := said.text.String(); !strings.HasPrefix(text, "answering at "+at+":") || strings.HasPrefix(text, "answering at "+at+":0,") {
		t.Errorf("it says %q", text)
	}
}

// TestListenerRefusesWhatItWouldIgnore: a listener refuses flags of the connecting side, because they have no effect.
func TestListenerRefusesWhatItWouldIgnore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a run that accepts its arguments must not wait for peers
	for _, args := range [][]string{{"--from", "127.0.0.1"}, {"-c", "1"}, {"-i", "1"}, {"-W", "1"}, {"-s", "64"}, {"-q"}, {"--reconnect"}} {
		root := newRoot()
		root.SetArgs(append([]string{"-l", "127.0.0.2:7000", "--datapath", "udp", "--udp-port", fmt.Sprint(netlabtest.FreePort(t))}, args...))
		root.SetOut(io.Discard)
		var said bytes.Buffer
		if status := cli.Run(ctx, root, &said); status != cli.Misuse || !strings.Contains(said.String(), "leave") {
			t.Errorf("%q: status %d, %s", args, status, &said)
		}
	}
}
