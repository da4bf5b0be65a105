package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrPortTaken means that another socket of this machine has the address and port.
var ErrPortTaken = errors.New("the UDP port is in use")

// Config describes a socket.
type Config struct {
	Local netip.AddrPort
	Scope int // interface index, for link-local addresses
	// Device is the index of the interface or VRF that the socket is bound to; 0 for none. An address of an interface in a VRF is
	// known only in this VRF.
	Device int
	// Buffer sizes in bytes of payload; 0 is the minimum. The system's limits apply unless the process may exceed them.
	ReceiveBuffer, SendBuffer int
	// Runs lets the socket send GSO batches (Sender) and receive merged datagrams. Its datagrams have UDP checksums over IPv4, too.
	Runs bool
	// Stamps requests the arrival time of each datagram, if the kernel supports it.
	Stamps bool
	// Keep is the number of bytes of large datagrams that stay in the socket after they were received (see kept), if ReceiveBuffer
	// allows it; 0 for none.
	Keep int
}

// Network opens sockets in the network namespace of the thread that made it, whichever thread calls later.
type Network struct {
	ns     *namespace // nil without /proc: every calling thread must then be in the right namespace
	cookie uint64
}

// NewNetwork returns a Network for the calling thread's network namespace.
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
	_ = unix.Close(fd) // nothing was written, so an error does not matter
	n.ns = rememberNamespace(n.cookie)
	return n, nil
}

// Namespace returns the cookie of the network namespace, or 0 if the kernel does not provide it.
func (n *Network) Namespace() uint64 { return n.cookie }

// cookieOf returns the cookie of a socket's network namespace. Kernels before 5.14 do not provide it, so all namespaces have cookie
// 0.
func cookieOf(fd int) uint64 {
	c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return c
}

// Close releases the namespace. Open must not be called afterwards.
func (n *Network) Close() error {
	if n.ns == nil {
		return nil
	}
	return n.ns.forget()
}

// Open opens a socket and binds it. If the port is in use, the error wraps ErrPortTaken.
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

// SocketOf returns a Socket for the descriptor of a bound socket.
func SocketOf(fd int, at netip.Addr) *Socket { return &Socket{fd: fd, ipv6: !at.Unmap().Is4()} }

// Configure sets the options of a Config on a bound socket. Its port does not change.
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

// Socket opens an unbound non-blocking socket in the network's namespace.
func (n *Network) Socket(family, kind int) (int, error) {
	kind |= unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, kind, 0)
	if err != nil || n.ns == nil || cookieOf(fd) == n.cookie {
		return fd, err
	}
	_ = unix.Close(fd) // nothing was written, so an error does not matter
	type made struct {
		fd  int
		err error
	}
	result := make(chan made)
	go func() {
		// Never unlocked, so the runtime ends the thread with the goroutine, and no other goroutine runs in this namespace.
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

// Holds returns nil if a descriptor is a UDP socket bound to an address and port of the network, and no other socket of its Device
// may share the port. Otherwise it returns the reason.
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
		return fmt.Errorf("the socket is bound to %s, not to %s", bound, at)
	}
	if cookieOf(fd) != n.cookie {
		return errors.New("the socket belongs to another network namespace")
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

// Device returns the index of the interface or VRF that a socket is bound to, or 0 for none.
func Device(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX)
}

// Socket is a bound non-blocking UDP socket.
type Socket struct {
	fd      int
	ipv6    bool
	watcher *Watcher // of ICMP errors; nil if they are not reported
	kept    kept
}

// hops is the TTL and hop limit (PROTOCOL §2).
const hops = 64

// setOptions makes packets look like packets of all other datapaths (PROTOCOL §2): never fragmented, 64 hops, and without UDP
// checksum over IPv4 unless GSO batches need it. MTUs that the kernel learned from ICMP are ignored, because any host can send ICMP
// (PROTOCOL §9.6). The type of service of received datagrams is requested for congestion marks.
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
		if err != nil && !errors.Is(err, unix.ENOPROTOOPT) && !errors.Is(err, unix.EOPNOTSUPP) { // the network stack of a sandbox may lack it; packets pass without
			return fmt.Errorf("set option %d of level %d: %w", o.name, o.level, err)
		}
	}
	if cfg.Stamps {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // a system without it, such as qemu-user, provides no arrival times
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

// setBuffer sets a buffer size, beyond the system's limit if permitted.
func (s *Socket) setBuffer(force, plain, size int) error {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, size)
}

// FD returns the descriptor. The Socket still owns it.
func (s *Socket) FD() int { return s.fd }

// Port returns the UDP port of the socket, which the kernel may have chosen.
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

// Drops returns the number of datagrams lost because the receive buffer was full.
func (s *Socket) Drops() (uint64, error) { return Drops(s.fd) }

// Drops is Socket.Drops for any socket.
func Drops(fd int) (uint64, error) {
	m, err := readMemInfo(fd)
	return uint64(m[memInfoDrops]), err
}

// Fill returns how full the receive buffer is, in 1/256. If this cannot be read, it returns 0.
func (s *Socket) Fill() int {
	m, err := readMemInfo(s.fd)
	if err != nil || m[memInfoLimit] == 0 {
		return 0
	}
	return int(uint64(m[memInfoUsed]) * 256 / uint64(m[memInfoLimit]))
}

// Close closes the socket. It must not be used afterwards.
func (s *Socket) Close() error { return unix.Close(s.fd) }
