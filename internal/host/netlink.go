package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OpenNetlink opens a route netlink socket. It returns nil without an error if a sandbox refuses netlink.
func OpenNetlink() (*netlink.Handle, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	switch {
	case NotOffered(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open a route netlink socket: %w", err)
	}
	return nl, nil
}

// NotOffered reports whether the kernel, or a sandbox around this process, does not offer the function at all, so that a retry is
// useless.
func NotOffered(err error) bool {
	for _, no := range []error{
		unix.EAFNOSUPPORT, unix.EPFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT, unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP, unix.ENOPROTOOPT,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// ErrBlind means that the kernel does not report interfaces and routes to this process.
var ErrBlind = errors.New("netlink sockets are refused: permit AF_NETLINK (systemd: RestrictAddressFamilies)")
