package ndnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"
)

// Connections and listeners have all methods of package net's, except the method that names the type of its connections.
func TestMethodsOfPackageNet(t *testing.T) {
	for theirs, ours := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[*net.TCPConn]():     reflect.TypeFor[*Conn](),
		reflect.TypeFor[*net.TCPListener](): reflect.TypeFor[*Listener](),
	} {
		for m := range theirs.Methods() {
			if m.Name == "AcceptTCP" {
				continue
			}
			our, there := ours.MethodByName(m.Name)
			if !there {
				t.Errorf("%v has no %s", ours, m.Name)
				continue
			}
			in, want := our.Type, m.Type
			same := in.NumIn() == want.NumIn() && in.NumOut() == want.NumOut()
			for i := 1; same && i < want.NumIn(); i++ {
				same = in.In(i) == want.In(i)
			}
			for i := 0; same && i < want.NumOut(); i++ {
				same = in.Out(i) == want.Out(i)
			}
			if !same {
				t.Errorf("%v: %s is %v, want %v", ours, m.Name, in, want)
			}
		}
	}
}

// The addresses of both sides have the IP address and port in package net's type, also in errors.
func TestAddressesAreThoseOfTCP(t *testing.T) {
	n := networks(t, Config{})
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	at := l.Addr().(*net.TCPAddr)
	if at.Network() != "tcp" || !at.IP.Equal(n[1].adapter.QueryAddressList()[0].AsSlice()) || at.Port == 0 {
		t.Errorf("the listener is at %v", at)
	}
	dialed, err := n[0].Dial("tcp", at.String())
	must(t, err)
	accepted, err := l.Accept()
	must(t, err)
	for _, ends := range [][2]net.Conn{{dialed, accepted}, {accepted, dialed}} {
		local, remote := ends[0].LocalAddr().(*net.TCPAddr), ends[1].RemoteAddr().(*net.TCPAddr)
		if local.String() != remote.String() || !local.IP.IsLoopback() || local.Port == 0 {
			t.Errorf("one end is %v, for the other %v", local, remote)
		}
	}
	must(t, dialed.Close())
	_, err = dialed.Write([]byte("x"))
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr.(*net.TCPAddr).String() != at.String() || op.Net != "nd" {
		t.Errorf("a call on a closed connection: %v", err)
	}
	must(t, accepted.Close())
	must(t, l.Close())
	if _, err = n[0].Dial("tcp", at.String()); !errors.As(err, &op) || op.Addr.(*net.TCPAddr).String() != at.String() {
		t.Errorf("no listener: %v", err)
	}
}

// The buffer limits can be set for each connection, and are respected.
func TestBufferLimits(t *testing.T) {
	client, server := newPipe(t, Config{MaxBuffer: 1 << 20})
	must(t, client.SetWriteBuffer(minMaxBuffer))
	must(t, server.SetReadBuffer(minMaxBuffer-1))
	taken := 0
	must(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
	for {
		n, err := client.Write(make([]byte, minMaxBuffer))
		if taken += n; err != nil {
			break
		}
	}
	if taken > 3*minMaxBuffer {
		t.Errorf("%d bytes were taken, with buffers of %d at both ends", taken, minMaxBuffer)
	}
	if err := client.SetWriteBuffer(-1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a negative size: %v", err)
	}
	must(t, client.SetReadBuffer(1<<62))
	if client.mostRead != maxRing {
		t.Errorf("the limit is %d", client.mostRead)
	}
}

// Option methods of a closed connection fail like those of package net.
func TestOptionsOfClosedConnections(t *testing.T) {
	c, _ := newPipe(t, Config{})
	must(t, c.Close())
	_, multipath := c.MultipathTCP()
	_, raw := c.SyscallConn()
	for name, err := range map[string]error{
		"SetNoDelay": c.SetNoDelay(true), "SetReadBuffer": c.SetReadBuffer(1), "SetWriteBuffer": c.SetWriteBuffer(1),
		"SetKeepAlive": c.SetKeepAlive(true), "MultipathTCP": multipath, "SyscallConn": raw,
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Methods that need a socket return an error that says so.
func TestNoSocket(t *testing.T) {
	n := networks(t, Config{})
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	c, _ := newPipe(t, Config{})
	raw, err := c.SyscallConn()
	must(t, err)
	_, file := c.File()
	_, listener := l.(*Listener).File()
	_, control := l.(*Listener).SyscallConn()
	for name, err := range map[string]error{
		"Conn.File": file, "Listener.File": listener, "Listener.SyscallConn": control,
		"Control": raw.Control(func(uintptr) {}), "Write": raw.Write(func(uintptr) bool { return true }),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, l.Close())
}

// alive checks an idle connection like database clients check connections of their pool: a byte, or the end of the stream, means
// that it is unusable.
func alive(c *Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var said error
	err = raw.Read(func(at uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(at), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case n == 0 && err == nil:
			said = io.EOF
		case n > 0:
			said = errors.New("a byte that nobody has asked for")
		case !errors.Is(err, syscall.EAGAIN):
			said = err
		}
		return true
	})
	return errors.Join(err, said)
}

func TestPoolsSeeWhetherConnectionsLive(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, alive(client))
	_, err := server.Write([]byte("x"))
	must(t, err)
	must(t, client.SetReadDeadline(time.Now().Add(patience)))
	raw, err := client.SyscallConn()
	must(t, err)
	if err := raw.Read(func(uintptr) bool { return false }); !errors.Is(err, errors.ErrUnsupported) { // waits for the byte
		t.Errorf("a byte has arrived: %v", err)
	}
	if err := alive(client); err == nil {
		t.Error("a byte has arrived, and the connection is idle")
	}
	_, err = io.ReadFull(client, make([]byte, 1))
	must(t, err)
	must(t, alive(client))
	must(t, server.Close())
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	if err := alive(client); !errors.Is(err, io.EOF) {
		t.Errorf("the peer has closed: %v", err)
	}
}

// A listener's deadline ends pending and later Accept calls. After a new deadline Accept works again.
func TestAcceptDeadline(t *testing.T) {
	n := networks(t, Config{})
	one, err := n[1].Listen("tcp", ":0")
	must(t, err)
	for _, l := range []net.Listener{one, newMerged(one.Addr(), one)} {
		d := l.(interface{ SetDeadline(time.Time) error })
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			waiting <- err
		}()
		must(t, d.SetDeadline(time.Now().Add(time.Hour)))
		must(t, d.SetDeadline(time.Now().Add(time.Millisecond)))
		var timeout net.Error
		if err := <-waiting; !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("Accept: %v", err)
		}
		must(t, d.SetDeadline(time.Now().Add(-1)))
		if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Accept behind the deadline: %v", err)
		}
		must(t, d.SetDeadline(time.Time{}))
		c, err := n[0].DialContext(context.Background(), "tcp", l.Addr().String())
		must(t, err)
		s, err := l.Accept()
		must(t, err)
		must(t, errors.Join(c.Close(), s.Close()))
	}
	must(t, one.Close())
	if err := one.(*Listener).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is closed: %v", err)
	}
}
