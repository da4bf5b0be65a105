package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrPortTaken says that another socket of this machine has the address and port.
var ErrPortTaken = errors.New("the UDP port is in use")

// Config says which socket to open.
type Config struct {
	Local netip.AddrPort
	Scope int // interface index, for link-local addresses
	// Device is the index of an interface or a VRF that the socket belongs to; 0 for none. An address of an interface that a VRF has is
	// known in that VRF only.
	Device int
	// Buffers in bytes of payload; the kernel's limits hold unless the process may exceed them. 0 is the smallest.
	ReceiveBuffer, SendBuffer int
	// Runs makes the kernel hand over datagrams that it merged, and lets runs be sent (see Sender), which have UDP checksums over IPv4 as well.
	Runs bool
	// Stamps makes the kernel say when each datagram arrived, where it can.
	Stamps bool
	// Keep is how many bytes of large datagrams stay in the socket after they were received (see kept), where ReceiveBuffer allows it; 0 for none.
	Keep int
}

// Network opens sockets in the network namespace of the thread that made it, whichever thread calls later.
type Network struct {
	ns     *namespace // nil when /proc is not there: then every thread had better be in the right namespace
	cookie uint64
}

// NewNetwork remembers the calling thread's network namespace.
func NewNetwork() (*Network, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket: %w", permit(err))
	}
	n := &Network{cookie: cookieOf(fd)}
	_ = unix.Close(fd) // nothing was written through it
	n.ns = rememberNamespace(n.cookie)
	return n, nil
}

// Namespace names the network namespace; 0 where the kernel does not tell.
func (n *Network) Namespace() uint64 { return n.cookie }

// cookieOf names a socket's network namespace; kernels before 5.14 do not tell, and every namespace looks alike.
func cookieOf(fd int) uint64 {
	c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return c
}

// Close forgets the namespace. Open must not be called afterwards.
func (n *Network) Close() error {
	if n.ns == nil {
		return nil
	}
	return n.ns.forget()
}

// Open opens a socket and binds it. The error wraps ErrPortTaken when that is the reason.
func (n *Network) Open(cfg Config) (*Socket, error) {
	family := unix.AF_INET6
	if cfg.Local.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	fd, err := n.Socket(family, unix.SOCK_DGRAM)
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket for %s: %w", cfg.Local, permit(err))
	}
	s := &Socket{fd: fd, ipv6: family == unix.AF_INET6}
	err = s.setOptions(family, cfg)
	if err == nil {
		err = unix.Bind(fd, sockaddr(cfg.Local, cfg.Scope))
	}
	if err == nil {
		if cfg.Keep > 0 {
			s.keep(cfg.Keep)
		}
		return s, nil
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("%w (%w)", ErrPortTaken, err)
	}
	return nil, errors.Join(fmt.Errorf("open a UDP socket for %s: %w", cfg.Local, err), s.Close())
}

// SocketOf returns the Socket of a descriptor of one that is bound to an address.
func SocketOf(fd int, at netip.Addr) *Socket { return &Socket{fd: fd, ipv6: !at.Unmap().Is4()} }

// Configure gives a bound socket the options of a Config: its port stays.
func (s *Socket) Configure(cfg Config) error {
	family := unix.AF_INET
	if s.ipv6 {
		family = unix.AF_INET6
	}
	if err := s.setOptions(family, cfg); err != nil {
		return fmt.Errorf("set up the UDP socket for %s: %w", cfg.Local, err)
	}
	if cfg.Keep > 0 {
		s.keep(cfg.Keep)
	}
	return nil
}

// Socket makes an unbound socket of a family and type in the network's namespace, in non-blocking mode.
func (n *Network) Socket(family, kind int) (int, error) {
	kind |= unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, kind, 0)
	if err != nil || n.ns == nil || cookieOf(fd) == n.cookie {
		return fd, err
	}
	_ = unix.Close(fd) // nothing was written through it
	type made struct {
		fd  int
		err error
	}
	result := make(chan made)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine, and no other one ever runs in that namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(n.ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- made{-1, fmt.Errorf("go back to the network namespace of the socket: %w", err)}
			return
		}
		fd, err := unix.Socket(family, kind, 0)
		result <- made{fd, err}
	}()
	m := <-result
	return m.fd, m.err
}

// Holds says what keeps a descriptor from being a UDP socket that is bound to an address and port of the network, and alone there among those of its Device; nil when nothing
// does.
func (n *Network) Holds(fd int, at netip.AddrPort) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	var bound netip.AddrPort
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		bound = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		bound = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	if bound != at {
		return fmt.Errorf("it is bound to %s, not to %s", bound, at)
	}
	if cookieOf(fd) != n.cookie {
		return errors.New("it is of another network namespace")
	}
	for _, o := range []struct {
		name, want int
		wrong      string
	}{
		{unix.SO_PROTOCOL, unix.IPPROTO_UDP, "it is no UDP socket"},
		{unix.SO_REUSEADDR, 0, "others may have its port, too (SO_REUSEADDR)"},
		{unix.SO_REUSEPORT, 0, "others may have its port, too (SO_REUSEPORT)"},
	} {
		v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.name)
		if err != nil {
			return err
		}
		if v != o.want {
			return errors.New(o.wrong)
		}
	}
	return nil
}

// Device is the index of the interface or VRF that any socket belongs to; 0 for none.
func Device(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX)
}

// Socket is a bound UDP socket, in non-blocking mode.
type Socket struct {
	fd      int
	ipv6    bool
	watcher *Watcher // of ICMP errors; nil when the socket does not tell
	kept    kept
}

// hops is the TTL and hop limit (PROTOCOL §2).
const hops = 64

// setOptions makes packets look as they do on every other path (PROTOCOL §2): never fragmented, 64 hops, no UDP checksum
// over IPv4 where there are no runs. What the kernel learned of a path's MTU from ICMP is left out, because anyone can send that (PROTOCOL §9.6). The type of service of what arrives is asked for because of congestion marks.
func (s *Socket) setOptions(family int, cfg Config) error {
	type option struct{ level, name, value int }
	options := []option{
		{unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE},
		{unix.SOL_IP, unix.IP_TTL, hops},
		{unix.SOL_IP, unix.IP_RECVTOS, 1},
		{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
	}
	if cfg.Runs {
		options[len(options)-1].value = 0
	}
	if family == unix.AF_INET6 {
		options = []option{
			{unix.SOL_IPV6, unix.IPV6_V6ONLY, 1},
			{unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
			{unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, hops},
			{unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1},
		}
	}
	if cfg.Runs {
		options = append(options, option{unix.SOL_UDP, unix.UDP_GRO, 1})
	}
	for _, o := range options {
		err := unix.SetsockoptInt(s.fd, o.level, o.name, o.value)
		if err != nil && !errors.Is(err, unix.ENOPROTOOPT) && !errors.Is(err, unix.EOPNOTSUPP) { // a sandbox's own network stack may lack it, and packets pass without
			return fmt.Errorf("set option %d of level %d: %w", o.name, o.level, err)
		}
	}
	if cfg.Stamps {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // a system that does not know it, such as qemu-user, stamps nothing
	}
	if cfg.Device != 0 {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, cfg.Device); err != nil {
			return fmt.Errorf("bind to interface %d: %w", cfg.Device, err)
		}
	}
	if err := s.setBuffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.ReceiveBuffer); err != nil {
		return err
	}
	return s.setBuffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
}

// setBuffer exceeds the limit of the machine where it may.
func (s *Socket) setBuffer(force, plain, size int) error {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, size)
}

// FD returns the descriptor. It stays the Socket's property.
func (s *Socket) FD() int { return s.fd }

// Port is the UDP port that the socket has, which Config may have left to the kernel.
func (s *Socket) Port() (uint16, error) {
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return 0, fmt.Errorf("ask for the port of a UDP socket: %w", err)
	}
	if a, ok := sa.(*unix.SockaddrInet6); ok {
		return uint16(a.Port), nil
	}
	return uint16(sa.(*unix.SockaddrInet4).Port), nil
}

// Drops counts the datagrams that found the receive buffer full.
func (s *Socket) Drops() (uint64, error) { return Drops(s.fd) }

// Drops is that of any socket.
func Drops(fd int) (uint64, error) {
	m, err := readMemInfo(fd)
	return uint64(m[memInfoDrops]), err
}

// Fill returns how full the receive buffer is, in 1/256. A socket that cannot be asked is empty.
func (s *Socket) Fill() int {
	m, err := readMemInfo(s.fd)
	if err != nil || m[memInfoLimit] == 0 {
		return 0
	}
	return int(uint64(m[memInfoUsed]) * 256 / uint64(m[memInfoLimit]))
}

// Close closes the socket. It must not be used afterwards.
func (s *Socket) Close() error { return unix.Close(s.fd) }
