package ndnet

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// SyscallConn returns a syscall.RawConn for programs that check whether an idle connection is still alive, as database clients do before
// they reuse a pooled connection.
//
// Its Read calls the function with a socket that behaves like the connection: reading it returns EAGAIN while nothing has arrived, and the
// end after the peer has shut down writing. The socket carries no data. If data has arrived, Read fails with EOPNOTSUPP without calling the
// function. Control and Write always fail with EOPNOTSUPP: the connection has no kernel socket, so options would have no effect.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if err := c.set(func() {}); err != nil {
		return nil, err
	}
	return raw{c}, nil
}

// raw is the syscall.RawConn of a connection.
type raw struct{ c *Conn }

func (r raw) Control(func(uintptr)) error { return r.c.opError("raw-control", errNoSocket) }

func (r raw) Write(func(uintptr) bool) error { return r.c.opError("raw-write", errNoSocket) }

func (r raw) Read(done func(uintptr) bool) error {
	s, err := standIns()
	if err != nil {
		return r.c.opError("raw-read", err)
	}
	for {
		at, err := r.look(s)
		if err == nil && done(at) {
			return nil
		}
		if err == nil {
			err = r.wait()
		}
		if err != nil {
			return r.c.opError("raw-read", err)
		}
	}
}

// look returns the socket that matches the state of the connection.
func (r raw) look(s sockets) (uintptr, error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeResults()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.in.unread() > 0:
		return 0, errNoSocket
	case c.ended, c.deaf:
		return s.ended, nil
	case c.failed != nil:
		return 0, c.failed
	}
	return s.idle, nil
}

// wait returns when the state may have changed.
func (r raw) wait() error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if err := r.c.readable(); err != io.EOF {
		return err
	}
	return nil
}

// sockets are the two sockets that stand for a connection: idle if nothing has arrived, and ended. All connections of the process share
// them.
type sockets struct{ idle, ended uintptr }

var standIns = sync.OnceValues(func() (s sockets, err error) {
	for _, at := range []*uintptr{&s.idle, &s.ended} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return s, err
		}
		*at = uintptr(pair[0])
		if at == &s.ended {
			_ = syscall.Close(pair[1]) // makes reads return the end
		}
	}
	return s, nil
})
