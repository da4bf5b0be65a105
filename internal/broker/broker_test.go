package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

var good = Request{Version: version, Address: netip.MustParseAddr("192.0.2.1"), UDPPort: 14791, Datapath: "auto", Arena: 1 << 20}

// fakeOpened has pipes in place of sockets.
type fakeOpened struct {
	files             []*os.File
	queues            int
	delivered, closed atomic.Bool
}

func newFakeOpened(t *testing.T) *fakeOpened {
	l := &fakeOpened{queues: 1}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l.files = []*os.File{r, w}
	return l
}

func (l *fakeOpened) Grant() (Grant, []int) {
	g, fds := Grant{Queues: l.queues, Reason: "a test"}, []int(nil)
	for _, f := range l.files {
		fds = append(fds, int(f.Fd()))
	}
	return g, fds
}

func (l *fakeOpened) Delivered() error {
	l.delivered.Store(true)
	return errors.Join(l.files[0].Close(), l.files[1].Close())
}

func (l *fakeOpened) Close() error {
	l.closed.Store(true)
	return nil
}

// socketPath returns a path where a broker can listen.
func socketPath(t *testing.T) string {
	return filepath.Join(t.TempDir(), "s")
}

// servePath runs s until the test ends, and returns the path of its socket.
func servePath(t *testing.T, s *Server) string {
	t.Helper()
	path := socketPath(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serveAt(t, l, s)
	return path
}

// serveAt runs s at l until the test ends.
func serveAt(t *testing.T, l *net.UnixListener, s *Server) {
	t.Helper()
	if s.Log == nil {
		s.Log = func(string) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func me() Policy { return Policy{Users: []uint32{uint32(os.Getuid())}} }

// wantUnheld fails the test if the other end of the pipe that r reads is still open anywhere.
func wantUnheld(t *testing.T, what string, r *os.File) {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%s: a descriptor was left open (%v)", what, err)
	}
}

func wantText(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

func TestServeOneClient(t *testing.T) {
	opened := newFakeOpened(t)
	given := make(chan Request, 1)
	lines := make(chan string, 10)
	path := servePath(t, &Server{Allow: me(), Log: func(l string) { lines <- l }, Open: func(r Request) (Opened, error) {
		given <- r
		return opened, nil
	}})
	l, err := Dial(path, good)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-given; r != good {
		t.Errorf("asked for %+v, want %+v", r, good)
	}
	<-lines
	if !opened.delivered.Load() || opened.closed.Load() {
		t.Error("not delivered, or taken back at once")
	}
	// The client's descriptors are the two ends of the pipe, and no others are open.
	if _, err := unix.Write(l.Sockets[0], []byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := unix.Read(l.Memory, make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l.Gone() {
		t.Error("the broker is reported as gone, but we closed")
	}
	if line := <-lines; !strings.HasSuffix(line, "given back") || !opened.delivered.Load() {
		t.Errorf("at the end: %q", line)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestHostileClients sends every kind of invalid request, and then a valid one.
func TestHostileClients(t *testing.T) {
	path := servePath(t, &Server{
		Allow: me(), request: 100 * time.Millisecond,
		Open: func(Request) (Opened, error) { return nil, errors.New("reached the end") },
	})
	for _, c := range []struct{ name, say, want string }{
		{"garbage", "\x00\xff{", "understand the request"},
		{"another shape", `{"version":3,"address":[1,2]}`, "understand the request"},
		{"huge", strings.Repeat(" ", maxMessage+1), "longer than"},
		{"silence", "", "wait for a request"},
		{"version", `{"version":2}`, "version 2"},
		{"no address", `{"version":3}`, "not an address"},
		{"everybody", `{"version":3,"address":"255.255.255.255","udp_port":1,"arena":-1}`, "-1 bytes of memory"},
		{"multicast", `{"version":3,"address":"224.0.0.1","udp_port":1}`, "not an address"},
		{"port", `{"version":3,"address":"192.0.2.1"}`, "no UDP port"},
		{"memory", `{"version":3,"address":"192.0.2.1","udp_port":1,"arena":268435457}`, "268435457 bytes"},
		{"ring without a socket", `{"version":3,"address":"192.0.2.1","udp_port":1,"datapath":"ring"}`, "lacks the UDP socket"},
		{"nothing wrong", `{"version":3,"address":"192.0.2.1","udp_port":1}`, "reached the end"},
	} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		if c.say != "" {
			if _, err := conn.Write([]byte(c.say)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		answer := make([]byte, maxMessage)
		n, err := conn.Read(answer)
		if err != nil || !strings.Contains(string(answer[:n]), c.want) || strings.Contains(string(answer[:n]), "grant\"") {
			t.Errorf("%s: %q, %v, want %q", c.name, answer[:n], err, c.want)
		}
		conn.Close()
	}
}

func TestUserRefused(t *testing.T) {
	path := servePath(t, &Server{Allow: Policy{Users: []uint32{uint32(os.Getuid()) + 1}}, Open: func(Request) (Opened, error) {
		t.Error("opened for a stranger")
		return nil, errors.New("no")
	}})
	_, err := Dial(path, good)
	wantText(t, "a stranger", err, "may not use this broker")
}

// TestOneAtATime: a second client waits, and gives up. A client that sends anything loses its lease.
func TestOneAtATime(t *testing.T) {
	all := make(chan *fakeOpened, 2)
	path := servePath(t, &Server{Allow: me(), handover: time.Millisecond, Open: func(Request) (Opened, error) {
		l := newFakeOpened(t)
		all <- l
		return l, nil
	}})
	first, err := Dial(path, good)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Dial(path, good)
	wantText(t, "a second client", err, "another process has the lease of AF_XDP")
	if _, err := first.conn.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if !first.Gone() {
		t.Error("the broker went on after a second message")
	}
	if !(<-all).closed.Load() {
		t.Error("the connection ended before the lease had ended")
	}
}

// connectAs connects as another user, which the kernel reports to the broker.
func connectAs(t *testing.T, path string, uid int) *net.UnixConn {
	t.Helper()
	type result struct {
		conn *net.UnixConn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread keeps the other user and ends
		become := func(uid int) error {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				return errno
			}
			return nil
		}
		if err := become(uid); err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		done <- result{conn, errors.Join(err, become(0))}
	}()
	r := <-done
	if r.err != nil {
		t.Fatalf("connect as user %d: %v", uid, r.err)
	}
	t.Cleanup(func() { r.conn.Close() })
	return r.conn
}

// TestSilentStrangers: users that may not use the broker connect and send nothing. Users that may use it are served as usual. Each
// unauthorized user gets the reason of its refusal, if the broker has a place for it.
func TestSilentStrangers(t *testing.T) {
	netlabtest.NeedRoot(t) // for connections as other users
	path := socketPath(t)
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil { // inaccessible to other users
		t.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serveAt(t, l, &Server{
		Allow: me(), request: time.Minute,
		Open: func(Request) (Opened, error) { return nil, errors.New("a client was served") },
	})
	var strangers []*net.UnixConn
	for range 2 * maxStrangers {
		strangers = append(strangers, connectAs(t, path, 65534))
	}
	_, err = Dial(path, good)
	wantText(t, "a client among silent strangers", err, "a client was served")
	answer := make([]byte, maxMessage)
	if _, err := strangers[0].Write([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	n, err := strangers[0].Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "user 65534 may not use this broker") {
		t.Errorf("the first stranger: %q, %v", answer[:n], err)
	}
	if n, err := strangers[len(strangers)-1].Read(answer); err == nil && n > 0 {
		t.Errorf("the last stranger: %q, want nothing", answer[:n])
	}
}

func TestTooManyClients(t *testing.T) {
	path := servePath(t, &Server{Allow: me(), Open: func(Request) (Opened, error) { return nil, errors.New("free again") }})
	var idle []net.Conn
	for range maxOfUser {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	_, err := Dial(path, good)
	wantText(t, "one more", err, "too many clients")
	for _, conn := range idle {
		conn.Close()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, err = Dial(path, good)
		if strings.Contains(err.Error(), "free again") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not free again: %v", err)
		}
	}
}

// TestHostileBroker sends every kind of invalid answer to a client, and no descriptor is left behind.
func TestHostileBroker(t *testing.T) {
	for _, c := range []struct {
		name, say string
		fds       int
		want      string
	}{
		{"nothing", "", 0, "no answer"},
		{"garbage", "\xff", 2, "understand the answer"},
		{"huge", strings.Repeat("[", maxMessage+1), 2, "too long"},
		{"no grant", `{"version":3}`, 0, "neither a grant nor an error"},
		{"version", `{"version":7,"grant":{"queues":1}}`, 2, "version 7"},
		{"too few", `{"version":3,"grant":{"queues":2}}`, 2, "2 queues, a ring of 0 bytes and 2 descriptors"},
		{"too many", `{"version":3,"grant":{"queues":99}}`, 100, "too long, or its descriptors"},
		{"no queue", `{"version":3,"grant":{"queues":0}}`, 1, "0 queues, a ring of 0 bytes and 1 descriptors"},
		{"ring and queues", `{"version":3,"grant":{"datapath":"ring","ring_bytes":4096,"queues":1}}`, 2, "1 queues, a ring of 4096 bytes and 2 descriptors"},
		{"ring without a page", `{"version":3,"grant":{"datapath":"ring","ring_bytes":4096}}`, 1, "a ring of 4096 bytes and 1 descriptors"},
		{"ring without room", `{"version":3,"grant":{"datapath":"ring"}}`, 2, "a ring of 0 bytes"},
		{"huge ring", `{"version":3,"grant":{"datapath":"ring","ring_bytes":134217728}}`, 2, "a ring of 134217728 bytes"},
		{"no descriptors", `{"version":3,"grant":{"datapath":"ring","queues":9}}`, 0, "9 queues"},
		{"refusal", `{"version":3,"error":"not today"}`, 0, "not today"},
	} {
		path := socketPath(t)
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fds := slices.Repeat([]int{int(w.Fd())}, c.fds)
		answered := make(chan error, 1)
		go func() {
			conn, err := l.AcceptUnix()
			if err == nil {
				_, err = conn.Read(make([]byte, maxMessage))
			}
			if err == nil && c.say != "" {
				_, _, err = conn.WriteMsgUnix([]byte(c.say), unix.UnixRights(fds...), nil)
			}
			conn.Close()
			answered <- err
		}()
		_, err = Dial(path, good)
		wantText(t, c.name, err, c.want)
		if err := <-answered; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		w.Close()
		wantUnheld(t, c.name, r)
		r.Close()
		l.Close()
	}
}

// The error about a socket path that is too long contains the path and the limit, on both sides.
func TestLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("p", 120))
	_, err := Listen(path)
	wantText(t, "listen", err, path+" has ")
	_, err = Dial(path, good)
	wantText(t, "dial", err, "at most 107")
}

// TestListenReplaces replaces the socket of a dead broker, and neither a live broker's socket nor another file.
func TestListenReplaces(t *testing.T) {
	path := socketPath(t)
	dead, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	alive, err := Listen(path)
	if err != nil {
		t.Fatalf("at a dead socket: %v", err)
	}
	if _, err := Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("at a living socket: %v", err)
	}
	alive.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil {
		t.Error("listens in place of a file")
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file: %q, %v", text, err)
	}
	_, err = Dial(path, good)
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("asked a file: %v", err)
	}
}
