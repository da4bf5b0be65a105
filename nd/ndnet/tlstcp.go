package ndnet

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// tlsOverTCP accepts TCP connections, and returns them after their TLS handshake, as connections over ND. Handshakes run concurrently,
// so that a slow client does not delay others.
type tlsOverTCP struct {
	net.Listener
	admission
	patience time.Duration // of a handshake
	places   chan struct{} // one element for each connection that is not accepted yet
	ready    chan accepted

	life context.Context
	end  context.CancelFunc
}

// newTLSOverTCP begins to accept connections of l, which it owns.
func newTLSOverTCP(l net.Listener, a admission, patience time.Duration) *tlsOverTCP {
	t := &tlsOverTCP{Listener: l, admission: a, patience: patience, places: make(chan struct{}, somaxconn()), ready: make(chan accepted)}
	t.life, t.end = context.WithCancel(context.Background())
	go t.run()
	return t
}

// run accepts until the listener is closed. Clients beyond the bound wait in the kernel.
func (t *tlsOverTCP) run() {
	for {
		select {
		case t.places <- struct{}{}:
		case <-t.life.Done():
			return
		}
		c, err := t.Listener.Accept()
		go func() {
			defer func() { <-t.places }()
			if err == nil {
				c = t.shake(c)
			}
			if c == nil && err == nil {
				return // the peer was refused
			}
			select {
			case t.ready <- accepted{c, err}:
			case <-t.life.Done():
				if err == nil {
					_ = c.Close()
				}
			}
		}()
		if err != nil && !isTemporary(err) {
			return
		}
	}
}

// shake runs the handshake of a connection. It returns nil for a client that fails. If plain connections are allowed, a client
// that does not begin with a TLS handshake gets its connection as it is.
func (t *tlsOverTCP) shake(c net.Conn) net.Conn {
	ctx, cancel := context.WithTimeout(t.life, t.patience)
	defer cancel()
	if t.plain {
		first, err := firstByte(ctx, c)
		if err == nil && first != tlsHandshake {
			return c
		}
		if err != nil {
			_ = c.Close()
			return nil
		}
	}
	s := tls.Server(c, t.tls)
	if s.HandshakeContext(ctx) != nil {
		_ = c.Close()
		return nil
	}
	return s
}

// tlsHandshake is the first byte of a TLS connection: the type of a handshake record (RFC 8446 §5.1).
const tlsHandshake = 22

// firstByte waits for the first byte of a TCP connection, and leaves it there to be read.
func firstByte(ctx context.Context, c net.Conn) (byte, error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		var n int
		n, _, failed = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if failed == nil && n == 0 {
			failed = net.ErrClosed
		}
		return failed != syscall.EAGAIN && failed != syscall.EINTR
	})
	if err == nil && !stop() { // the read deadline is set, or will be
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	return b[0], failed
}

// Accept implements net.Listener.
func (t *tlsOverTCP) Accept() (net.Conn, error) {
	select {
	case a := <-t.ready:
		return a.conn, a.err
	case <-t.life.Done():
		return nil, &net.OpError{Op: "accept", Net: t.Addr().Network(), Addr: t.Addr(), Err: net.ErrClosed}
	}
}

// Close ends handshakes that run, and connections that Accept has not returned. It does not wait for functions of the configuration, one of
// which may be its caller.
func (t *tlsOverTCP) Close() error {
	t.end()
	return t.Listener.Close()
}
