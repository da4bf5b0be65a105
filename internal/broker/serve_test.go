package broker

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A broker without a free descriptor for a moment continues, and accepts the waiting client afterwards.
func TestServeOutlivesAWantOfDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	said, done := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	s := &Server{Allow: me(), Open: func(Request) (Opened, error) { return newFakeOpened(t), nil }, Log: func(line string) {
		if strings.Contains(line, "a client waits") {
			once.Do(func() { close(said) })
		}
	}}
	go func() { done <- s.Serve(ctx, l) }()
	defer end()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var old, none unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none = old
	none.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	select {
	case <-said:
	case e := <-done:
		t.Errorf("the broker ended: %v", e)
	case <-time.After(time.Minute):
		t.Error("the broker does not log a waiting client")
	}
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	lease, err := Dial(path, good)
	if err != nil {
		t.Fatalf("the broker accepts no client any more: %v", err)
	}
	if err := lease.Close(); err != nil {
		t.Error(err)
	}
	end()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// If several brokers find the socket of a killed one at the same time, exactly one of them listens.
func TestOneListens(t *testing.T) {
	for range 300 {
		path := filepath.Join(t.TempDir(), "s")
		left, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
		var won [4]*net.UnixListener
		var all sync.WaitGroup
		for i := range won {
			all.Go(func() { won[i], _ = Listen(path) })
		}
		all.Wait()
		n := 0
		for _, l := range won {
			if l != nil {
				n++
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if n != 1 {
			t.Fatalf("%d brokers listen", n)
		}
	}
}

// lingering is a socket whose close takes an hour, unless its peer closes first, at the end of the test.
func lingering(t *testing.T) (fd int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept() // reads nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = unix.Sendto(fd, make([]byte, 1<<16), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	return fd
}

// An unauthorized client may pass a descriptor whose close takes long. It can delay neither the broker's end nor its own refusal.
func TestStrangerPassesWhatCloses(t *testing.T) {
	const patience = 20 * time.Second
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	done := make(chan error, 1)
	s := &Server{Allow: Policy{Users: []uint32{4_000_000_000}}, Log: func(string) {}}
	fd := lingering(t)
	conn, err := dialAt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := conn.WriteMsgUnix([]byte("{}"), unix.UnixRights(fd), nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Close(fd), conn.SetDeadline(time.Now().Add(patience))); err != nil { // the broker has the last descriptor
		t.Fatal(err)
	}
	go func() { done <- s.Serve(ctx, l) }()
	if n, err := conn.Read(make([]byte, maxMessage)); n == 0 {
		t.Errorf("no refusal: %v", err)
	}
	end()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the broker does not end")
	}
}
