package udp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Assigned is an address of an interface.
type Assigned struct {
	Interface string
	Address   netip.Addr
}

// AssignedAddresses lists the addresses of the calling thread's network namespace without netlink, for processes in a sandbox that
// refuses netlink. It lists IPv4 addresses by ioctl and IPv6 addresses from /proc. Without /proc it lists no IPv6 addresses.
func AssignedAddresses() (all []Assigned, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		all, err = interfaceConfiguration(fd)
		err = errors.Join(err, unix.Close(fd))
	}
	table, failed := os.ReadFile("/proc/thread-self/net/if_inet6") // /proc/net shows the main thread's namespace
	if err != nil && failed != nil {
		return nil, fmt.Errorf("list addresses without netlink: %w", err)
	}
	return append(all, parseInet6(string(table))...), nil
}

// parseInet6 parses a table like /proc/net/if_inet6: hexadecimal address first, interface last. It skips addresses that are not
// usable yet.
func parseInet6(table string) (all []Assigned) {
	const tentative = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 6 {
			continue
		}
		ip, err := hex.DecodeString(f[0])
		flags, failed := hex.DecodeString(f[4])
		addr, ok := netip.AddrFromSlice(ip)
		if err != nil || failed != nil || !ok || slices.ContainsFunc(flags[len(flags)-1:], func(b byte) bool { return b&tentative != 0 }) {
			continue
		}
		all = append(all, Assigned{Interface: f[5], Address: addr})
	}
	return all
}

// permit adds to an error what a sandbox must permit.
func permit(err error) error {
	for _, no := range []error{unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOSYS, unix.EPERM, unix.EACCES} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: permit sockets of AF_INET and AF_INET6 to this process (systemd: RestrictAddressFamilies; containers: the seccomp profile)", err)
		}
	}
	return err
}
