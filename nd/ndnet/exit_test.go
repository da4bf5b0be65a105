package ndnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// exitServer is an environment variable with the address and the UDP port of a process that serves until its standard input ends.
const exitServer = "NDNET_TEST_EXIT_SERVER"

// sizeHeader is the header with the size of the answer that the process sends.
const sizeHeader = "Size"

// serveUntilTold serves like a program that ends properly: by Shutdown, and by returning from main.
func serveUntilTold(t *testing.T, where string) {
	var at string
	var udp uint16
	_, err := fmt.Sscanf(where, "%s %d", &at, &udp)
	must(t, err)
	l, err := (&ListenConfig{Adapters: Adapters{UDPPort: udp, Datapath: nd.DatapathUDP}}).Listen(t.Context(), "tcp", at+":0")
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var size int
		_, _ = fmt.Sscan(r.Header.Get(sizeHeader), &size) // a failed parse shows as a short answer
		_, _ = w.Write(make([]byte, size))
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	fmt.Println("listening", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	must(t, s.Shutdown(context.Background()))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// startExitServer starts that process in the namespace of the calling thread. Closing end ends the process's input.
func startExitServer(t *testing.T, at netip.Addr, udp uint16) (cmd *exec.Cmd, end io.Closer, address string) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", exitServer, at, udp))
	out, err := cmd.StdoutPipe()
	must(t, err)
	end, err = cmd.StdinPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		address, _ = strings.CutPrefix(lines.Text(), "listening ")
	}
	if address == "" {
		t.Fatal("the process does not listen")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // discards further output
	return cmd, end, address
}

// exits tests a server process that ends while clients read its answers and idle clients wait. dial connects to it.
func exits(t *testing.T, cmd *exec.Cmd, end io.Closer, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.Helper()
	idle, err := dial(t.Context(), "tcp", address)
	must(t, err)
	_, err = fmt.Fprintf(idle, "GET / HTTP/1.1\r\nHost: x\r\n%s: 0\r\n\r\n", sizeHeader)
	must(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(idle), nil)
	must(t, err)
	must(t, answer.Body.Close())
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var begun, all sync.WaitGroup
	told := make(chan struct{})
	for i := range 12 {
		begun.Add(1)
		all.Go(func() {
			size := []int{100 << 10, 1 << 20}[i%2]
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
			if err == nil {
				req.Header.Set(sizeHeader, fmt.Sprint(size))
				req.Close = i%3 == 0
				var res *http.Response
				if res, err = transport.RoundTrip(req); err == nil {
					begun.Done()
					<-told
					err = readSlowly(res.Body, size)
				} else {
					begun.Done()
				}
			}
			if err != nil {
				t.Errorf("answer %d of %d bytes: %v", i, size, err)
			}
		})
	}
	begun.Wait()
	must(t, end.Close())
	close(told)
	all.Wait()
	must(t, cmd.Wait())
	must(t, idle.SetReadDeadline(time.Now().Add(patience)))
	if b, err := io.ReadAll(idle); len(b) > 0 || err != nil {
		t.Errorf("an idle client of the process reads %d bytes, %v", len(b), err)
	}
	must(t, idle.Close())
}

// readSlowly reads an answer in parts, with pauses.
func readSlowly(r io.Reader, size int) error {
	got, piece := 0, make([]byte, size/20)
	for {
		n, err := r.Read(piece)
		got += n
		switch {
		case err == io.EOF && got == size:
			return nil
		case err != nil:
			return fmt.Errorf("%d bytes were read: %w", got, err)
		}
		time.Sleep(5 * time.Millisecond) // the client is slow
	}
}

// If a server ends by Shutdown and by returning from main, no answer is truncated, and idle clients see the end of their streams.
func TestServerExits(t *testing.T) {
	if where := os.Getenv(exitServer); where != "" {
		serveUntilTold(t, where)
		return
	}
	port := netlabtest.FreePort(t)
	cmd, end, address := startExitServer(t, netlabtest.Loopback()[0], port)
	exits(t, cmd, end, address, (&Dialer{Adapters: Adapters{UDPPort: port, Datapath: nd.DatapathUDP}}).DialContext)
}

// A server that ends truncates no answer on a network with packet loss either.
func TestServerExitsWithLoss(t *testing.T) {
	if where := os.Getenv(exitServer); where != "" {
		serveUntilTold(t, where)
		return
	}
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	const port = 4791
	var cmd *exec.Cmd
	var end io.Closer
	var address string
	var client *Network
	for i, ns := range []*netlab.Namespace{pair.A, pair.B} {
		must(t, ns.Do(func() error {
			loss, err := impair.Attach([]int{pair.IfindexA, pair.IfindexB}[i], port)
			must(t, err)
			t.Cleanup(func() { must(t, ns.Do(loss.Close)) })
			must(t, loss.Set(impair.Config{Loss: 0.03, Seed: uint64(i)}))
			if ns == pair.B {
				cmd, end, address = startExitServer(t, pair.AddrB.Addr(), port)
				return nil
			}
			a, err := nd.OpenAdapter(nd.AdapterConfig{Address: pair.AddrA.Addr(), UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
			must(t, err)
			t.Cleanup(func() { must(t, a.Close()) })
			client, err = New(a, Config{})
			return err
		}))
	}
	exits(t, cmd, end, address, client.DialContext)
	must(t, client.Wait(t.Context()))
}

// After Wait nothing of the closed objects is left: no adapter is open, and no goroutine runs.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	a := onLoopback(t)
	l, err := (&ListenConfig{Adapters: a}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := &http.Transport{DialContext: (&Dialer{Adapters: a}).DialContext}
	res, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
	must(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	transport.CloseIdleConnections()
	must(t, s.Shutdown(t.Context()))
	<-served
	must(t, Wait(t.Context()))
	adapters.mu.Lock()
	defer adapters.mu.Unlock()
	for key, p := range adapters.open {
		if key.udpPort == a.UDPPort && p.now.Load() != nil {
			t.Error("the adapter is still open")
		}
	}
	for until := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(until) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
