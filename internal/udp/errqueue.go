package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errorRoom is room for a few ICMPv6 errors. Each quotes up to 1232 bytes and is accounted as twice that.
const errorRoom = 8 << 10

// Sent is an ICMP error about a sent datagram, from the error queue of its socket.
type Sent struct {
	Type, Code uint8    // of the ICMP message
	Sender     [16]byte // source of the ICMP message, IPv4 as a mapped address; zero if unknown
	IP         [16]byte // destination of the datagram, IPv4 as a mapped address
	Port       uint16
	Quoted     []byte // beginning of the datagram
}

// Watcher waits for ICMP errors about datagrams of sockets. One goroutine at a time may call Wait. Any goroutine may call Close.
type Watcher struct {
	epoll  int
	file   *os.File // owns the epoll descriptor, registered with the runtime's poller
	raw    syscall.RawConn
	events [16]unix.EpollEvent
}

// NewWatcher returns a Watcher without sockets.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make the epoll non-blocking: %w", err), unix.Close(fd))
	}
	w := &Watcher{epoll: fd, file: os.NewFile(uintptr(fd), "epoll of UDP sockets with errors")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

// Wait waits until sockets have errors, and returns the local ports of some of them. It fails after Close.
func (w *Watcher) Wait() (ports []uint16, err error) {
	failed := w.raw.Read(func(uintptr) bool {
		var n int
		n, err = unix.EpollWait(w.epoll, w.events[:], 0)
		for i := range max(n, 0) {
			ports = append(ports, uint16(w.events[i].Fd))
		}
		return n != 0 && !errors.Is(err, unix.EINTR)
	})
	return ports, errors.Join(failed, err)
}

// Close ends Wait. It does not close the sockets.
func (w *Watcher) Close() error { return w.file.Close() }

// TellErrors makes the kernel queue ICMP errors about datagrams that the socket sends from a local port, and makes w report them.
// nil ends this. Until the first call, errors are ignored. It is for sockets that receive nothing, because it sets the receive
// buffer, where errors wait. An error may make a send fail, which Sender repeats, so sockets that send much data should not use it.
func (s *Socket) TellErrors(w *Watcher, port uint16) error {
	if s.watcher == w {
		return nil
	}
	level, name, value, room := unix.SOL_IP, unix.IP_RECVERR, 0, 0
	if s.ipv6 {
		level, name = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	if w != nil {
		value, room = 1, errorRoom
	}
	err := errors.Join(
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room), unix.SetsockoptInt(s.fd, level, name, value),
	)
	if err != nil {
		return err
	}
	if w != nil { // no events: epoll always reports errors
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Fd: int32(port)})
	} else {
		err = unix.EpollCtl(s.watcher.epoll, unix.EPOLL_CTL_DEL, s.fd, nil)
		_, _ = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR) // clears a pending error, so that it fails no send
	}
	s.watcher = w
	return err
}

// sizeofExtendedErr is the size of struct sock_extended_err (linux/errqueue.h).
const sizeofExtendedErr = 16

// ReadError takes the oldest ICMP error from the socket's queue, and stores the quoted datagram in buf. ok is false if there is
// none. Errors of this machine are skipped, because the failed send has reported them. The kernel also stores the last error
// outside the queue, even if the queue has no room. ReadError clears it, because a Watcher reports a socket with a stored error
// again and again.
func (s *Socket) ReadError(buf []byte) (e Sent, ok bool) {
	var oob [128]byte // for IP_RECVERR with the sender's address, and for control messages that received datagrams have
	for {
		n, oobn, _, to, err := unix.Recvmsg(s.fd, buf, oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			_, _ = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			return Sent{}, false
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			continue
		}
		for _, m := range messages {
			wanted := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR ||
				m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
			if !wanted || len(m.Data) < sizeofExtendedErr {
				continue
			}
			if origin := m.Data[4]; origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
				continue
			}
			e.Type, e.Code, e.Quoted = m.Data[5], m.Data[6], buf[:n]
			e.Sender = offender(m.Data[sizeofExtendedErr:])
			if e.IP, e.Port, ok = endpoint(to); ok {
				return e, true
			}
		}
	}
}

// offender returns the address in the struct sockaddr behind a struct sock_extended_err (SO_EE_OFFENDER).
func offender(b []byte) (ip [16]byte) {
	const addr4, addr6 = 4, 8 // offsets of the address in struct sockaddr_in and sockaddr_in6
	if len(b) < addr4+4 {
		return ip
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET:
		ip[10], ip[11] = 0xff, 0xff
		copy(ip[12:], b[addr4:addr4+4])
	case family == unix.AF_INET6 && len(b) >= addr6+16:
		copy(ip[:], b[addr6:])
	}
	return ip
}

// endpoint is the inverse of sockaddr.
func endpoint(at unix.Sockaddr) (ip [16]byte, port uint16, ok bool) {
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		ip[10], ip[11] = 0xff, 0xff
		copy(ip[12:], a.Addr[:])
		return ip, uint16(a.Port), true
	case *unix.SockaddrInet6:
		return a.Addr, uint16(a.Port), true
	}
	return ip, 0, false
}
