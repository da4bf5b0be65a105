package ndnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

const patience = time.Minute

// stallOfTests is for tests that close both sides in one goroutine while data are unread.
const stallOfTests = 100 * time.Millisecond

// networks are two adapters on loopback, which needs no privilege.
func networks(t testing.TB, cfg Config) (n [2]*Network) {
	t.Helper()
	port := netlabtest.FreePort(t)
	for i, addr := range netlabtest.Loopback() {
		a, err := nd.OpenAdapter(nd.AdapterConfig{Address: addr, UDPPort: port, Datapath: nd.DatapathUDP})
		must(t, err)
		t.Cleanup(func() { must(t, a.Close()) })
		n[i], err = New(a, cfg)
		must(t, err)
		n[i].bounds.stall = stallOfTests
	}
	return n
}

// pipe is a connection between two networks.
func pipe(n [2]*Network) (client, server net.Conn, stop func(), err error) {
	l, err := n[1].Listen("tcp", ":0")
	if err != nil {
		return nil, nil, nil, err
	}
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, err = l.Accept()
		accepted <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err = n[0].DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, nil, nil, errors.Join(err, l.Close())
	}
	select {
	case err = <-accepted:
	case <-ctx.Done():
		err = errors.New("the server did not get the connection")
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, l.Close())
	}
	return client, server, func() {
		client.Close()
		server.Close()
		l.Close()
		_ = n[0].Wait(context.Background()) // nothing ends this wait
		_ = n[1].Wait(context.Background())
	}, nil
}

// newPipe is pipe for a test.
func newPipe(t *testing.T, cfg Config) (client, server *Conn) {
	t.Helper()
	a, b, stop, err := pipe(networks(t, cfg))
	must(t, err)
	t.Cleanup(stop)
	return a.(*Conn), b.(*Conn)
}

// TestStream moves more bytes than all buffers hold, in both directions at once, with Writes and Reads of all sizes.
func TestStream(t *testing.T) {
	client, server := newPipe(t, Config{MaxBuffer: minMaxBuffer})
	const size = 2 << 20
	var work sync.WaitGroup
	for i, ends := range [][2]*Conn{{client, server}, {server, client}} {
		data := make([]byte, size)
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		work.Go(func() {
			for rest := data; len(rest) > 0; {
				n := min(1+int(rest[0])*20, len(rest))
				if _, err := ends[0].Write(rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
			if err := ends[0].CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		work.Go(func() {
			got, err := io.ReadAll(ends[1])
			if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
				t.Errorf("%d bytes arrived of %d, or others (%v)", len(got), size, err)
			}
		})
	}
	work.Wait()
	if _, err := client.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write after CloseWrite: %v", err)
	}
}

// TestSlowReader: a writer waits for a reader that takes longer than a Send may be blocked in the transport, and no data are lost.
func TestSlowReader(t *testing.T) {
	client, server := newPipe(t, Config{MaxBuffer: minMaxBuffer})
	data := bytes.Repeat([]byte("0123456789abcdef"), 10000)
	must(t, client.SetWriteDeadline(time.Now().Add(3*time.Second)))
	n, err := client.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n > 4*minMaxBuffer {
		t.Fatalf("%d bytes taken, %v", n, err)
	}
	must(t, client.SetWriteDeadline(time.Time{}))
	written := make(chan error, 1)
	go func() {
		_, err := client.Write(data[n:])
		written <- errors.Join(err, client.CloseWrite())
	}()
	got, err := io.ReadAll(server)
	must(t, err)
	must(t, <-written)
	if !bytes.Equal(got, data) {
		t.Error("other bytes arrived than were written")
	}
}

// TestCloseDelivers: data written before Close arrive, and then the end of the stream. The peer's Writes fail.
func TestCloseDelivers(t *testing.T) {
	client, server := newPipe(t, Config{})
	want := strings.Repeat("last words ", 5000)
	_, err := client.Write([]byte(want))
	must(t, err)
	must(t, client.Close())
	if err := client.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	must(t, server.SetDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(server)
	must(t, err)
	if string(got) != want {
		t.Errorf("%d bytes arrived of %d", len(got), len(want))
	}
	for err == nil {
		_, err = server.Write([]byte("nobody reads this"))
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write to a peer that is gone: %v", err)
	}
}

// TestAdapterGoes: pending calls return that the adapter was closed.
func TestAdapterGoes(t *testing.T) {
	n := networks(t, Config{})
	client, server, stop, err := pipe(n)
	must(t, err)
	read := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1))
		read <- err
	}()
	must(t, n[0].adapter.Close())
	if err := <-read; !errors.Is(err, nd.ErrDeviceRemoved) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
	must(t, server.SetDeadline(time.Now().Add(patience)))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer's read: %v", err)
	}
	stop()
}

func TestListener(t *testing.T) {
	n := networks(t, Config{})
	here := n[1].adapter.QueryAddressList()[0].String()
	l, err := n[1].Listen("tcp", here+":80")
	must(t, err)
	if _, err := n[1].Listen("tcp", ":80"); !errors.Is(err, nd.ErrSharingViolation) {
		t.Errorf("the same port twice: %v", err)
	}
	for _, bad := range []string{"", here, here + ":no-such-service", "192.0.2.1:1"} {
		if _, err := n[1].Listen("tcp", bad); err == nil {
			t.Errorf("listen on %q succeeded", bad)
		}
	}
	if _, err := n[0].Dial("tcp", here+":81"); !errors.Is(err, nd.ErrConnectionRefused) {
		t.Errorf("no listener there: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		waiting <- err
	}()
	must(t, l.Close())
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	must(t, n[1].Wait(context.Background()))
}

func TestConfig(t *testing.T) {
	for _, bad := range []Config{{MaxBuffer: -1}, {MaxBuffer: maxRing + 1}} {
		if bad.check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for given, want := range map[int]int{0: defaultMaxBuffer, 1: minMaxBuffer, minMaxBuffer + 1: 2 * minMaxBuffer, maxRing: maxRing} {
		cfg := Config{MaxBuffer: given}
		must(t, cfg.check())
		if cfg.MaxBuffer != want {
			t.Errorf("%d became %d, want %d", given, cfg.MaxBuffer, want)
		}
	}
}

// TestHTTP runs net/http unchanged with HTTP/1 and HTTP/2 (which gRPC uses), with many concurrent requests.
func TestHTTP(t *testing.T) {
	n := networks(t, Config{})
	for _, c := range pairs(t, n, 1)[0] { // an adapter receives ICMP errors from its first connection on
		must(t, c.Close())
	}
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
	goroutines := runtime.NumGoroutine()
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a failed read shows as a short answer
		w.Header().Set("Proto", r.Proto)
		_, _ = w.Write(body)
	})}
	go server.Serve(l)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		var client http.Protocols
		client.SetHTTP1(proto == "HTTP/1.1")
		client.SetUnencryptedHTTP2(proto == "HTTP/2.0")
		transport := &http.Transport{DialContext: n[0].DialContext, Protocols: &client, MaxConnsPerHost: 4}
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, 1000*i)
				res, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String(), "text/plain", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil || !bytes.Equal(got, body) || res.Header.Get("Proto") != proto {
					t.Errorf("%s: %d bytes of %d, %q: %v", proto, len(got), len(body), res.Header.Get("Proto"), err)
				}
			})
		}
		work.Wait()
		transport.CloseIdleConnections()
	}
	must(t, server.Close())
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > goroutines; <-tick.C {
		if time.Now().After(deadline) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// BenchmarkPingPong is a round trip of 64 bytes between two goroutines over plain sockets.
func BenchmarkPingPong(b *testing.B) {
	client, server, stop, err := pipe(networks(b, Config{}))
	must(b, err)
	defer stop()
	go func() {
		_, _ = io.Copy(server, server) // ends with the connection
	}()
	p := make([]byte, 64)
	for b.Loop() {
		_, err := client.Write(p)
		must(b, err)
		_, err = io.ReadFull(client, p)
		must(b, err)
	}
}

// Clients that connect and do not continue, more of them than the backlog has places, do not keep an honest client out.
func TestAcceptBehindSilentClients(t *testing.T) {
	n := networks(t, Config{EstablishTimeout: time.Second}) // the honest client has the same time
	n[1].backlog = 16
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	connected := make(chan error)
	var silent []*Conn
	for range n[1].backlog + 1 {
		c, err := n[0].newConn(nil)
		must(t, err)
		silent = append(silent, c)
		go func() { connected <- c.connector.Connect(ctx, c.qp, at, c.params()) }()
	}
	for range silent {
		must(t, <-connected) // each client was accepted, one after the other
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	honest, err := n[0].DialContext(ctx, "tcp", at.String())
	must(t, err)
	must(t, <-accepted)
	must(t, honest.Close())
	for _, c := range silent {
		c.release()
	}
	must(t, l.Close())
	for _, n := range n {
		must(t, n.Wait(context.Background()))
	}
}

// A Wait on a network waits only for closed objects. It can be canceled, and called again.
func TestWaitIsGivenUp(t *testing.T) {
	n := networks(t, Config{})
	client, _, stop, err := pipe(n)
	must(t, err)
	must(t, n[0].Wait(t.Context()))
	n[0].bounds.stall = time.Millisecond
	_, err = client.Write(make([]byte, 16<<10))
	must(t, err)
	must(t, client.Close())
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	if err := n[0].Wait(given); !errors.Is(err, context.Canceled) {
		t.Errorf("the data were not read yet: %v", err)
	}
	stop()
	must(t, n[0].Wait(t.Context()))
}
