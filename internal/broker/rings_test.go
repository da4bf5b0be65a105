package broker

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// ringOpened is a ring for tests: the descriptors of a pipe.
type ringOpened struct{ *fakeOpened }

func (l ringOpened) Grant() (Grant, []int) {
	_, fds := l.fakeOpened.Grant()
	return Grant{Datapath: Ring, RingBytes: 4096}, fds
}

// passing is a request for a ring. The writing end of a pipe stands for its socket, and the caller closes it.
func passing(t *testing.T) (ask Request, reader *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	ask = good
	ask.Datapath = Ring
	if ask.Socket, err = unix.Dup(int(w.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ask, r
}

// TestRings: while one client has AF_XDP, others learn that there are rings, and get as many as they request. The broker keeps no
// client's socket open: if a client closes its socket, its port is free.
func TestRings(t *testing.T) {
	rings := make(chan ringOpened, 3)
	path := servePath(t, &Server{
		Allow: me(), handover: time.Hour, Open: func(Request) (Opened, error) { return newFakeOpened(t), nil },
		OpenRing: func(r Request) (Opened, error) {
			if r.Socket <= 0 {
				t.Error("no socket came along")
			}
			l := ringOpened{newFakeOpened(t)}
			rings <- l
			return l, nil
		},
	})
	first, err := Dial(path, good)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Dial(path, good)
	var instead *RingsError
	if !errors.As(err, &instead) {
		t.Fatalf("a second client got the error %v", err)
	}
	explicit := good
	explicit.Datapath, explicit.Unbidden = "generic", true
	if _, err = Dial(path, explicit); err == nil || errors.As(err, &instead) {
		t.Errorf("a client that requested the generic datapath got the error %v", err)
	}
	for range 2 {
		ask, reader := passing(t)
		lease, err := Dial(path, ask)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Close()
		if g := lease.Grant; g.Datapath != Ring || g.RingBytes != 4096 || lease.Memory < 0 || len(lease.Sockets) != 1 {
			t.Errorf("granted %+v", lease)
		}
		opened := <-rings
		if err := unix.Close(ask.Socket); err != nil {
			t.Error(err)
		}
		wantUnheld(t, "the ring is open", reader)
		if err := lease.Close(); err != nil {
			t.Error(err)
		}
		testhelp.Eventually(t, "the end of the ring", opened.closed.Load)
	}
}

// TestRefusedRings: if a ring is refused, the broker keeps no socket of the request. Cases: a broker without rings, a failure to
// open a ring, an unauthorized client, and a socket in another kind of request.
func TestRefusedRings(t *testing.T) {
	refuse := func(Request) (Opened, error) { return nil, errors.New("not for this socket") }
	for _, c := range []struct {
		name string
		s    *Server
		ring bool
		want string
	}{
		{"no rings", &Server{Allow: me(), Open: refuse}, true, "leases no rings"},
		{"a wrong socket", &Server{Allow: me(), OpenRing: refuse}, true, "not for this socket"},
		{"a stranger", &Server{Allow: Policy{Users: []uint32{uint32(os.Getuid()) + 1}}, OpenRing: refuse}, true, "may not use this broker"},
		{"beside AF_XDP", &Server{Allow: me(), Open: refuse}, false, "not for this socket"},
	} {
		path := servePath(t, c.s)
		ask, reader := passing(t)
		if !c.ring {
			ask.Datapath = "auto"
		}
		_, err := Dial(path, ask)
		wantText(t, c.name, err, c.want)
		if err := unix.Close(ask.Socket); err != nil {
			t.Error(err)
		}
		wantUnheld(t, c.name, reader)
	}
}

// TestManySockets: a request with more than one descriptor leaves none of them open.
func TestManySockets(t *testing.T) {
	path := servePath(t, &Server{Allow: me(), OpenRing: func(Request) (Opened, error) { return nil, errors.New("asked") }})
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask, reader := passing(t)
	ask.Version = version
	message, err := encode(&ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.WriteMsgUnix(message, unix.UnixRights(ask.Socket, ask.Socket, ask.Socket), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, maxMessage)); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := unix.Close(ask.Socket); err != nil {
		t.Error(err)
	}
	wantUnheld(t, "three descriptors", reader)
}
