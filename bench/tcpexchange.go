package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exchanger moves whole messages over one connection.
type exchanger interface {
	send(msg []byte) error
	recv(msg []byte) error
	some(buf []byte) (int, error) // reads available bytes, at least one
}

// withExchanger runs fn with the exchanger of the job's kind.
func (j Job) withExchanger(conn tcpStream, s Spec, fn func(exchanger) error) error {
	switch j.Kind {
	case KindTCP, KindTCPTLS:
		return fn(netExchanger{conn})
	case KindTCPBlock:
		return blockOn(conn.tcp, s.budget(), fn)
	}
	raw, err := conn.tcp.SyscallConn()
	if err != nil {
		return err
	}
	hold := raw.Read
	if !s.Test.IsLatency() && j.Role == Requester {
		hold = raw.Write
	}
	return spinOn(hold, time.Now().Add(s.budget()), fn)
}

// netExchanger uses package net in the usual way: the goroutine parks, and the poller wakes it.
type netExchanger struct{ conn net.Conn }

func (e netExchanger) send(msg []byte) error {
	_, err := e.conn.Write(msg)
	return err
}

func (e netExchanger) recv(msg []byte) error {
	_, err := io.ReadFull(e.conn, msg)
	return err
}

func (e netExchanger) some(buf []byte) (int, error) { return e.conn.Read(buf) }

// blockExchanger uses blocking system calls on a dedicated thread, like sockperf and most C programs, without Go's poller or
// scheduler.
type blockExchanger struct{ fd int }

// blockOn runs fn on a blocking duplicate of the connection. The connection itself is blocking afterwards, too.
func blockOn(conn *net.TCPConn, patience time.Duration, fn func(exchanger) error) error {
	f, err := conn.File()
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	limit := unix.NsecToTimeval(int64(patience))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			return err
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return fn(blockExchanger{fd})
}

func (e blockExchanger) send(msg []byte) error {
	for len(msg) > 0 {
		n, err := unix.Write(e.fd, msg)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		msg = msg[max(n, 0):]
	}
	return nil
}

func (e blockExchanger) recv(msg []byte) error {
	for len(msg) > 0 {
		n, err := e.some(msg)
		if err != nil {
			return err
		}
		msg = msg[n:]
	}
	return nil
}

func (e blockExchanger) some(buf []byte) (int, error) {
	for {
		switch n, err := unix.Read(e.fd, buf); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// spinExchanger reads the non-blocking descriptor in a loop, without Go's scheduler or poller.
type spinExchanger struct {
	fd       int
	deadline time.Time
}

// spinOn runs fn inside one call of RawConn, which keeps the descriptor open. The opposite direction stays free for other
// goroutines: a separate goroutine of a sender waits for the receiver to finish.
func spinOn(hold func(func(uintptr) bool) error, deadline time.Time, fn func(exchanger) error) error {
	var inner error
	err := hold(func(fd uintptr) bool {
		inner = fn(&spinExchanger{fd: int(fd), deadline: deadline})
		return true
	})
	return errors.Join(inner, err)
}

func (e *spinExchanger) send(msg []byte) error { return e.all(msg, unix.Write) }

func (e *spinExchanger) recv(msg []byte) error { return e.all(msg, unix.Read) }

func (e *spinExchanger) some(buf []byte) (int, error) { return e.once(buf, unix.Read) }

// all repeats call until all of msg has moved.
func (e *spinExchanger) all(msg []byte, call func(int, []byte) (int, error)) error {
	for len(msg) > 0 {
		n, err := e.once(msg, call)
		if err != nil {
			return err
		}
		msg = msg[n:]
	}
	return nil
}

// once repeats call until it has moved something. It reads the clock rarely, because a call takes a microsecond.
func (e *spinExchanger) once(msg []byte, call func(int, []byte) (int, error)) (int, error) {
	for turns := 0; ; turns++ {
		n, err := call(e.fd, msg)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			if turns&0xffff == 0xffff && time.Now().After(e.deadline) {
				return 0, fmt.Errorf("the peer transferred no data until the deadline: %w", syscall.ETIMEDOUT)
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
