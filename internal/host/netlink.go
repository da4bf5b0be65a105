package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OpenNetlink opens a route netlink socket. It is nil without an error where a sandbox refuses them.
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

// NotOffered says that the kernel, or a sandbox around this process, does not offer what was asked for: it will not help to ask again.
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

// ErrBlind says that the kernel does not tell this process of interfaces and routes.
var ErrBlind = errors.New("netlink sockets are refused: permit AF_NETLINK (systemd: RestrictAddressFamilies)")
