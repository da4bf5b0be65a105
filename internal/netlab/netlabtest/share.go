package netlabtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// Test processes of one machine share its loopback addresses and its ports: packages are tested beside each other, and so may be two copies of the whole suite. Each
// process has a share of both that no other process of its network namespace has.
const (
	shares = 256
	// firstPort and portsOfShare lay the shares below the ports that the kernel gives to sockets without one (ip_local_port_range, from 32768 on by
	// default), so that no socket that happens to be open has a port of a share.
	firstPort, portsOfShare = 16384, 64
	// addressesOfShare are beyond 127.128.0.0, where nobody else is.
	firstAddress, addressesOfShare = 127<<24 | 1<<23, 1 << 15
)

// share is that of this process.
var share = claimShare()

// claimShare takes the first share from the process's id on whose name nobody has. The name is an abstract Unix socket: the kernel takes it back when the
// process ends. Without a socket, or when all names are taken, the share is that of the process's id, and others may have it too.
func claimShare() uint32 {
	wanted := uint32(os.Getpid())
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return wanted % shares
	}
	for i := range uint32(shares) {
		n := (wanted + i) % shares
		if syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("@ndxdp-test/%d", n)}) == nil {
			return n
		}
	}
	return wanted % shares
}

// loopbacks and ports count what Loopback and FreePort gave.
var loopbacks, ports atomic.Uint32

// Loopback is two addresses of this machine that no other test uses now, which takes neither privileges nor configuration: all of
// 127.0.0.0/8 is there. Adapters over plain sockets want an address of their own: whatever their port, they answer strangers
// from the same one (PROTOCOL §2), and an adapter that cannot have it leaves them without an answer.
func Loopback() (pair [2]netip.Addr) {
	n := firstAddress + share*addressesOfShare + loopbacks.Add(1)*2%addressesOfShare
	for side := range pair {
		at := n | uint32(side)
		pair[side] = netip.AddrFrom4([4]byte{127, byte(at >> 16), byte(at >> 8), byte(at)})
	}
	return pair
}

// FreePort is a port that no socket of UDP or TCP has at any IPv4 address of this machine now, and that no other test gets before many others were given. It
// needs no privileges.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Port is FreePort for examples.
func Port() (port uint16, err error) {
	for range portsOfShare {
		port = uint16(firstPort + share*portsOfShare + ports.Add(1)%portsOfShare)
		if err = free(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: the last of %d that were tried is in use: %w", portsOfShare, err)
}

// free says why a socket of UDP or TCP cannot have a port.
func free(port uint16) error {
	u, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(port)})
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{Port: int(port)})
	if err != nil {
		return errors.Join(err, u.Close())
	}
	return errors.Join(u.Close(), l.Close())
}
