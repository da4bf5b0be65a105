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

// Assigned is an address that an interface has.
type Assigned struct {
	Interface string
	Address   netip.Addr
}

// AssignedAddresses lists the addresses of the calling thread's network namespace without netlink, for processes whom a sandbox refuses that: by ioctl those of IPv4, and
// from /proc those of IPv6, of which there are none without /proc.
func AssignedAddresses() (all []Assigned, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		all, err = interfaceConfiguration(fd)
		err = errors.Join(err, unix.Close(fd))
	}
	table, failed := os.ReadFile("/proc/thread-self/net/if_inet6") // /proc/net is that of the main thread
	if err != nil && failed != nil {
		return nil, fmt.Errorf("list addresses without netlink: %w", err)
	}
	return append(all, parseInet6(string(table))...), nil
}

// parseInet6 reads a table like /proc/net/if_inet6: the address in hexadecimal digits, and the interface at the end. It leaves out addresses that cannot be used yet.
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

// permit says what to permit where a socket of a family is refused by a sandbox.
func permit(err error) error {
	for _, no := range []error{unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOSYS, unix.EPERM, unix.EACCES} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: permit sockets of AF_INET and AF_INET6 to this process (systemd: RestrictAddressFamilies; containers: the seccomp profile)", err)
		}
	}
	return err
}
