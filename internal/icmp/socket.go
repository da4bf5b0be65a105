package icmp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
)

// maxErrors is the largest number of errors handled per second. An attempt to connect needs one, and a router sends few (Linux: one
// a second to a host). It also limits an attacker who tries all source ports of a request with short quotes.
const maxErrors = 100

const (
	window        = time.Second
	receiveBuffer = 32 << 10 // about 50 waiting errors, which the kernel accounts with twice their size; further errors are lost
	longest       = 2048     // a quote has at most 576 bytes (RFC 1812 §4.3.2.3) or 1280 (RFC 4443 §2.4)
)

// ErrNotAllowed means that this process may not open raw sockets, which needs CAP_NET_RAW.
var ErrNotAllowed = errors.New("this process may not open raw sockets (needs CAP_NET_RAW)")

// Socket receives errors about ND packets from one address: to one UDP port, or to ports that adapters chose. Any goroutine may
// call Close.
type Socket struct {
	file *os.File
	raw  syscall.RawConn
	ipv6 bool
	buf  []byte
	from [16]byte // source of the message in buf, over IPv6

	done      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open opens a raw socket in the calling thread's network namespace. Without the privilege, the error is ErrNotAllowed.
func Open(local netip.Addr, port uint16) (*Socket, error) {
	local = local.Unmap()
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if local.Is6() {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, ErrNotAllowed
	}
	if err != nil {
		return nil, fmt.Errorf("open a raw socket for ICMP errors about %s: %w", local, err)
	}
	s := &Socket{
		file: os.NewFile(uintptr(fd), "raw ICMP socket"), ipv6: local.Is6(), buf: make([]byte, longest), done: make(chan struct{}),
	}
	err = configure(fd, local, port)
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a raw socket for ICMP errors about %s: %w", local, err), s.file.Close())
	}
	return s, nil
}

// configure attaches the filter. The socket is not bound to an address, because in a VRF the kernel does not know the address
// outside. The filter compares the address.
func configure(fd int, local netip.Addr, port uint16) error {
	filter := filter6
	if local.Is4() {
		filter = filter4
	}
	program := filter(local, port)
	return errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer),
	)
}

// Close ends Each.
func (s *Socket) Close() error {
	s.closeOnce.Do(func() {
		close(s.done)
		s.closeErr = s.file.Close()
	})
	return s.closeErr
}

// Lost returns the number of errors that were dropped because too many arrived at once. It fails after Close.
func (s *Socket) Lost() (n uint64, err error) {
	failed := s.raw.Control(func(fd uintptr) { n, err = udp.Drops(int(fd)) })
	return n, errors.Join(failed, err)
}

// Each calls take for every error until Close, and malformed for packets that cannot be decoded. It handles maxErrors packets per
// second; further packets wait in the socket's buffer. take must not keep its argument.
func (s *Socket) Each(take func(Error), malformed func()) {
	pause := time.NewTimer(window)
	defer pause.Stop()
	for {
		for i := range maxErrors {
			n, err := s.receive()
			if err != nil {
				return
			}
			if i == 0 {
				pause.Reset(window)
			}
			if e, ok := s.parse(s.buf[:n]); ok {
				take(e)
			} else {
				malformed()
			}
		}
		select {
		case <-pause.C:
		case <-s.done:
			return
		}
	}
}

func (s *Socket) parse(b []byte) (Error, bool) {
	if s.ipv6 {
		return Parse6(b, s.from)
	}
	return Parse4(b)
}

// receive waits for the next error.
func (s *Socket) receive() (n int, err error) {
	failed := s.raw.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		n, from, err = unix.Recvfrom(int(fd), s.buf, 0)
		if at, ok := from.(*unix.SockaddrInet6); ok {
			s.from = at.Addr
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, errors.Join(failed, err)
}
