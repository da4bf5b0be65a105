package ndnet

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// errNoSocket is the error of calls that need a kernel socket.
var errNoSocket error = &fault{syscall.EOPNOTSUPP, errors.New("a connection of ndnet has no kernel socket")}

// SetNoDelay has no effect: small writes are gathered only while many messages are in flight.
func (c *Conn) SetNoDelay(bool) error { return c.set(func() {}) }

// SetReadBuffer sets how large the receive buffer may grow, in place of Config.MaxBuffer. It is rounded up to a power of two of 16 KiB to
// 64 MiB. A larger buffer shrinks when the connection is idle.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setLimit(&c.mostRead, bytes) }

// SetWriteBuffer is SetReadBuffer for the send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error { return c.setLimit(&c.mostWrite, bytes) }

func (c *Conn) setLimit(limit *int, bytes int) error {
	if bytes < 0 {
		return c.opError("set", errNegative)
	}
	return c.set(func() { *limit = bufferSize(min(bytes, maxRing)) })
}

// errNegative is the error for a negative size.
var errNegative error = &fault{syscall.EINVAL, nd.ErrInvalidParameter}

// set changes an option of a connection that is not closed.
func (c *Conn) set(change func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	change()
	return nil
}

// MultipathTCP returns false: a connection over ND is not a TCP connection.
func (c *Conn) MultipathTCP() (bool, error) { return false, c.set(func() {}) }

// File fails: a connection has no kernel descriptor.
func (c *Conn) File() (*os.File, error) { return nil, c.opError("file", errNoSocket) }

// SetDeadline sets the time after which Accept fails with os.ErrDeadlineExceeded; zero is never.
func (l *Listener) SetDeadline(t time.Time) error {
	if l.life.Err() != nil {
		return l.opError("set", l.failed)
	}
	l.deadline.set(t)
	return nil
}

// File fails: a listener has no kernel descriptor.
func (l *Listener) File() (*os.File, error) { return nil, l.opError("file", errNoSocket) }

// SyscallConn fails: a listener has no kernel descriptor.
func (l *Listener) SyscallConn() (syscall.RawConn, error) {
	return nil, l.opError("raw-control", errNoSocket)
}
