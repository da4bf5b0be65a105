package ports

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/internal/user"
)

// Holder is a process that holds the name of a well-known port, as the kernel reports it.
type Holder struct {
	UID uint32
	PID int // in this process's PID namespace; 0 if the process is in another namespace
}

// String names the process.
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("a process of user %d", h.UID)
	}
	return fmt.Sprintf("process %d of user %d", h.PID, h.UID)
}

// Trusted reports whether the process is root's or this user's.
func (h Holder) Trusted() bool { return user.Trusted(h.UID) }

// HolderOf returns the process that listens at the name of an address's well-known port. known is false if none listens: the name is
// free, or its socket does not belong to an adapter.
func HolderOf(network *udp.Network, at netip.AddrPort) (h Holder, known bool) {
	fd, err := network.Socket(unix.AF_UNIX, unix.SOCK_STREAM)
	if err != nil {
		return h, false
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: placeOf(netip.AddrPortFrom(at.Addr().Unmap(), at.Port())).holder()}) != nil {
		return h, false
	}
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED) // credentials of the process when it began to listen
	if err != nil {
		return h, false
	}
	return Holder{UID: who.Uid, PID: int(who.Pid)}, true
}
