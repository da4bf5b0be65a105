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

// Test processes of one machine use its loopback addresses and ports at the same time: go test runs packages beside each other, and two copies of the suite may
// run. Each process has a share of both. No other test process of its network namespace has the same share.
const (
	shares = 256
	// The ports of all shares are below ip_local_port_range (from 32768 on by default). The kernel gives no port of a share to a socket that asks for any port.
	firstPort, portsOfShare = 16384, 64
	// addressesOfShare are beyond 127.128.0.0, where nobody else is.
	firstAddress, addressesOfShare = 127<<24 | 1<<23, 1 << 15
)

// share is that of this process.
var share = claimShare()

// claimShare takes the first free share from the process's id on. The name of an abstract Unix socket stands for a share: the kernel takes the name back when the
// process ends. If no name can be had, the share follows from the process's id, and another process may have it too.
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

// Loopback is two addresses of this machine that no other test uses now. It takes neither privileges nor configuration: all of
// 127.0.0.0/8 is there. An adapter over plain sockets wants an address of its own. Whatever its port, it answers strangers from the
// same source port (PROTOCOL §2), and leaves them without an answer where another adapter has that port.
func Loopback() (pair [2]netip.Addr) {
	n := firstAddress + share*addressesOfShare + loopbacks.Add(1)*2%addressesOfShare
	for side := range pair {
		at := n | uint32(side)
		pair[side] = netip.AddrFrom4([4]byte{127, byte(at >> 16), byte(at >> 8), byte(at)})
	}
	return pair
}

// FreePort is a port without a socket of UDP or TCP at any IPv4 address of this machine. No other test gets the port before many others were
// given. It needs no privileges.
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
