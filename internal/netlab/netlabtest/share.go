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
	"time"
)

// Test processes of one machine use its loopback addresses and ports at the same time: go test runs packages concurrently, and two
// copies of the suite may run. Each process has a share of both. No other test process of its network namespace has the same share.
const (
	shares = 256
	// The ports of all shares are below ip_local_port_range (by default from 32768 on), so the kernel never gives them to a socket
	// without a chosen port.
	firstPort, portsOfShare = 16384, 64
	// The shares divide the addresses from 127.128.0.0 on, which nothing else uses.
	firstAddress, addressesOfShare = 127<<24 | 1<<23, 1 << 15
)

// share is the share of this process.
var share = claimShare()

// claimShare takes the first free share, beginning with the process's id. The name of an abstract Unix socket represents a share,
// because the kernel frees the name when the process ends. If no name is available, the share follows from the process's id, and
// another process may have it, too.
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

// loopbacks and ports count the results of Loopback and FreePort.
var loopbacks, ports atomic.Uint32

// Loopback returns two addresses of this machine that no other test uses now. It needs neither privileges nor configuration,
// because all of 127.0.0.0/8 exists. An adapter over plain sockets needs an address of its own. Whatever its port, it answers peers
// without a connection from one fixed source port (PROTOCOL §2), and cannot answer if another adapter has this port.
func Loopback() (pair [2]netip.Addr) {
	n := firstAddress + share*addressesOfShare + loopbacks.Add(1)*2%addressesOfShare
	for side := range pair {
		at := n | uint32(side)
		pair[side] = netip.AddrFrom4([4]byte{127, byte(at >> 16), byte(at >> 8), byte(at)})
	}
	return pair
}

// FreePort returns a port without a UDP or TCP socket at any IPv4 address of this machine. No other test gets the port until many
// more were returned. It needs no privileges.
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

// mostWait is the longest wait of DefaultPort. A program of documentation takes seconds.
const mostWait = 5 * time.Minute

// DefaultPort waits until no other test process of this network namespace has called DefaultPort, at most mostWait. Then this process may
// run programs with the ports and addresses that documentation shows, until it calls giveBack.
func DefaultPort() (giveBack func() error, err error) {
	const name = "@ndxdp-test/default-port"
	for end := time.Now().Add(mostWait); ; {
		l, err := net.Listen("unix", name)
		if err == nil {
			return l.Close, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return nil, fmt.Errorf("reserve the default port: %w", err)
		}
		if c, err := net.Dial("unix", name); err == nil {
			_ = c.SetReadDeadline(end)
			_, _ = c.Read(make([]byte, 1)) // until the holder closes its listener
			_ = c.Close()
		}
	}
}

// free returns an error if a UDP or TCP socket cannot bind to a port.
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
