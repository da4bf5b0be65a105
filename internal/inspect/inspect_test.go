package inspect

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

func TestMain(m *testing.M) { os.Exit(testhelp.ExitStatus(m.Run())) }

// fake is an adapter whose captures have an endless number of packets.
type fake struct{ taps atomic.Int32 }

func (f *fake) Answer(h Head, _ Request) any { return h }

func (f *fake) Capture(int) (Capture, error) {
	f.taps.Add(1)
	return &endless{of: f, frame: make([]byte, 1500)}, nil
}

type endless struct {
	of      *fake
	frame   []byte
	once    sync.Once
	stopped atomic.Bool
}

func (e *endless) Next(b []byte) ([]byte, error) {
	if e.stopped.Load() {
		return b, io.EOF
	}
	return (&Record{Frame: e.frame, Length: len(e.frame)}).Append(b), nil
}

func (e *endless) Lost() uint64 { return 7 }

func (e *endless) Stop() {
	e.stopped.Store(true)
	e.once.Do(func() { e.of.taps.Add(-1) })
}

func connect(t *testing.T, s *Server, say string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", s.Path())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	go func() { _, _ = c.Write([]byte(say)) }() // the connection may close in the middle
	return c
}

func answer(t *testing.T, s *Server, say string) (h Head, err error) {
	t.Helper()
	text, err := bufio.NewReader(connect(t, s, say)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	return h, err
}

// awaitNoTap waits until the adapter has no tap.
func (f *fake) awaitNoTap(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); f.taps.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the tap is still on")
		}
	}
}

// TestSocketsOfOthers: a socket in use is kept, and so is a file of another kind. A stale socket is replaced.
func TestSocketsOfOthers(t *testing.T) {
	a := &fake{}
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
	leave(t, path)
	s, err = Serve(a, path)
	must(t, err)
	if h, err := answer(t, s, `{"version":3}`+"\n"); err != nil || h.PID != os.Getpid() {
		t.Errorf("%+v, %v", h, err)
	}
	must(t, s.Close())
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// leave makes a socket without a listener.
func leave(t *testing.T, path string) {
	t.Helper()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
}

// TestSweepRemovesWhatTheKilledLeft: a new socket removes the stale sockets of dead processes. Files, sockets in use and sockets of
// live processes stay.
func TestSweepRemovesWhatTheKilledLeft(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := Directory()
	must(t, os.Mkdir(dir, 0o700))
	const nobody = "99999999" // larger than any process number
	leave(t, filepath.Join(dir, nobody+".sock"))
	leave(t, filepath.Join(dir, nobody+"-1.sock"))
	stay := []string{filepath.Join(dir, "1.sock"), filepath.Join(dir, nobody+"-2.sock"), filepath.Join(dir, nobody+"-3.sock")}
	leave(t, stay[0])
	must(t, os.WriteFile(stay[1], nil, 0o600))
	other, err := Serve(&fake{}, stay[2]) // of a process in another PID namespace
	must(t, err)
	defer other.Close()
	s, err := Serve(&fake{}, "")
	must(t, err)
	defer s.Close()
	got, want := slices.DeleteFunc(Sockets(), func(path string) bool { return filepath.Dir(path) != dir }), append(stay, s.Path())
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNamesOfOtherPIDNamespaces: processes of two PID namespaces may have the same number and share the directory. Each has its own
// socket.
func TestNamesOfOtherPIDNamespaces(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	other, err := Serve(&fake{}, filepath.Join(Directory(), name(int(opened.Load()))))
	must(t, err)
	defer other.Close()
	s, err := Serve(&fake{}, "")
	must(t, err)
	defer s.Close()
	if h, err := answer(t, s, `{"version":3}`+"\n"); err != nil || h.PID != os.Getpid() || s.Path() == other.Path() {
		t.Errorf("%s: %+v, %v", s.Path(), h, err)
	}
}

// TestWithoutDescriptors: a process without a free descriptor for a moment answers afterwards. The client's socket is made before,
// because accept takes a descriptor number for a moment also without a client.
func TestWithoutDescriptors(t *testing.T) {
	s, err := Serve(&fake{}, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	c := os.NewFile(uintptr(fd), s.Path())
	defer c.Close()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	restore := func() error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	defer restore()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1, Max: limit.Max})) // no new descriptors; open ones stay open
	must(t, syscall.Connect(fd, &syscall.SockaddrUnix{Name: s.Path()}))
	_, err = c.WriteString(`{"version":3}` + "\n")
	must(t, err)
	must(t, c.SetReadDeadline(time.Now().Add(2*acceptPause)))
	_, err = c.Read(make([]byte, 1))
	must(t, restore())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("it was answered without a descriptor, or cut off: %v", err)
	}
	must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestBadRequests: a client of another version gets an error. A client that sends anything else, or does not end its request, is
// disconnected.
func TestBadRequests(t *testing.T) {
	s, err := Serve(&fake{}, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	if h, err := answer(t, s, `{"version":1}`+"\n"); err != nil || h.Version != Version || !strings.Contains(h.Error, "version 1") {
		t.Errorf("another version: %+v, %v", h, err)
	}
	for name, line := range map[string]string{"no JSON": "hello\n", "too long": strings.Repeat(" ", 2*MaxRequestBytes)} {
		if h, err := answer(t, s, line); err == nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
	var idle []net.Conn
	for range maxClients + 2 { // more than are served at once: they wait, and all are disconnected at the end
		idle = append(idle, connect(t, s, ""))
	}
	must(t, s.Close())
	for _, c := range idle {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client outlives the server: %v", err)
		}
	}
}

const capture = `{"version":3,"capture":{}}` + "\n"

// TestCaptureOfAClientThatStalls: if a client reads nothing for too long, its capture ends, and the tap is removed.
func TestCaptureOfAClientThatStalls(t *testing.T) {
	a := &fake{}
	s, err := serve(a, filepath.Join(t.TempDir(), "x.sock"), time.Millisecond)
	must(t, err)
	defer s.Close()
	c := connect(t, s, capture)
	if _, err := c.Read(make([]byte, 1)); err != nil { // the first byte of the reply: the capture has begun
		t.Fatal(err)
	}
	a.awaitNoTap(t)
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("the stalled client's connection was not closed: %v", err)
	}
}

// sparse is an adapter whose captures have one packet, and no more until they are stopped.
type sparse struct{ fake }

func (a *sparse) Capture(int) (Capture, error) { return &once{end: make(chan struct{})}, nil }

type once struct {
	told bool
	stop sync.Once
	end  chan struct{}
}

func (o *once) Next(b []byte) ([]byte, error) {
	if o.told {
		<-o.end
		return b, io.EOF
	}
	o.told = true
	return (&Record{Frame: []byte("packet"), Length: 6}).Append(b), nil
}

func (o *once) Lost() uint64 { return 0 }

func (o *once) Stop() { o.stop.Do(func() { close(o.end) }) }

// TestCaptureIsLively: a client gets a packet although no further packets fill the block.
func TestCaptureIsLively(t *testing.T) {
	s, err := Serve(&sparse{}, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	c := connect(t, s, capture)
	in := bufio.NewReader(c)
	_, err = in.ReadBytes('\n')
	must(t, err)
	var header [BlockHeader]byte
	_, err = io.ReadFull(in, header[:])
	must(t, err)
	var r Record
	must(t, r.Read(in))
	if string(r.Frame) != "packet" {
		t.Errorf("%q came", r.Frame)
	}
	must(t, c.(*net.UnixConn).CloseWrite())
	rest, err := io.ReadAll(in)
	must(t, err)
	if len(rest) < BlockHeader || binary.BigEndian.Uint32(rest) != 0 {
		t.Errorf("the capture ends with %q", rest)
	}
}

// TestCaptureEndsWithItsClient: records arrive until the client closes its direction, and then the end record. If the client goes
// away, the tap is removed.
func TestCaptureEndsWithItsClient(t *testing.T) {
	a := &fake{}
	s, err := Serve(a, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	c := connect(t, s, `{"version":3,"capture":{"max_packets":3}}`+"\n")
	in := bufio.NewReader(c)
	_, err = in.ReadBytes('\n')
	must(t, err)
	all, err := io.ReadAll(in)
	must(t, err)
	packets := bufio.NewReader(bytes.NewReader(all[BlockHeader:]))
	var r Record
	for range 3 {
		must(t, r.Read(packets))
		if len(r.Frame) != 1500 {
			t.Errorf("%d bytes", len(r.Frame))
		}
	}
	var end End
	_, err = packets.Discard(BlockHeader)
	must(t, err)
	must(t, json.NewDecoder(packets).Decode(&end))
	if end.Lost != 7 {
		t.Errorf("%+v", end)
	}
	gone := connect(t, s, capture)
	_, err = gone.Read(make([]byte, 1))
	must(t, err)
	must(t, gone.Close())
	a.awaitNoTap(t)
}

// TestRecordsComeBack: written records are read back. Truncated records and records with wrong lengths are refused.
func TestRecordsComeBack(t *testing.T) {
	want := Record{
		Time: time.Unix(5, 6), Queue: 3, Sent: true, CE: true, Drop: "crc", Held: true, ConnectionID: 1 << 60, State: "open", Frame: []byte("frame"), Length: 99,
	}
	b := want.Append(nil)
	var got Record
	must(t, got.Read(bufio.NewReader(bytes.NewReader(b))))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for n := range b {
		if err := got.Read(bufio.NewReader(bytes.NewReader(b[:n]))); err == nil {
			t.Errorf("%d of %d bytes were a record", n, len(b))
		}
	}
	for _, length := range []byte{0, 0xff} { // less than the fixed part, and more than the longest packet
		wrong := append([]byte{length, length, length, length}, b[4:]...)
		if err := got.Read(bufio.NewReader(bytes.NewReader(wrong))); err == nil {
			t.Errorf("a length of %x", wrong[:4])
		}
	}
}
