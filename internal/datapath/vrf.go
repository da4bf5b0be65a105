package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vrfOf is the index of the VRF that an interface belongs to, 0 for none, in a list of all interfaces. A VRF has a routing table of its own.
func vrfOf(list []netlink.Link, index int) int {
	above := 0
	for _, l := range list {
		if l.Attrs().Index == index {
			above = l.Attrs().MasterIndex
		}
	}
	for _, l := range list {
		if l.Attrs().Index == above && l.Type() == "vrf" {
			return above
		}
	}
	return 0
}

// listenBy opens a UDP socket that belongs to an interface or a VRF, to none for 0, in the calling thread's network namespace. Outside its
// VRF the kernel takes an address for one of another machine.
func listenBy(index int, at netip.AddrPort) (*net.UDPConn, error) {
	cfg := net.ListenConfig{}
	if index != 0 {
		cfg.Control = func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, index)
			})
			if err = errors.Join(failed, err); err != nil {
				err = fmt.Errorf("bind to interface %d: %w", index, err)
			}
			return err
		}
	}
	c, err := cfg.ListenPacket(context.Background(), "udp", at.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// ListenUDP opens a UDP socket at an address of an interface as Open does to reserve the port, in the calling thread's network namespace.
func ListenUDP(index int, at netip.AddrPort) (*net.UDPConn, error) {
	n, err := newNeighbours(&netlink.Handle{}, index, at.Addr())
	if err != nil {
		return nil, err
	}
	return listenBy(n.vrf, at)
}
