package xdp

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"
)

// Supported returns nil if this process can use AF_XDP. Otherwise it returns an error that wraps ErrNotSupported (the kernel lacks
// it) or ErrPermission (with the missing capabilities).
func Supported() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = unix.Close(fd) // nothing was written through it
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.ESOCKTNOSUPPORT):
		return &Error{
			Op: "create an AF_XDP socket", Err: fmt.Errorf("%w: %w", ErrNotSupported, err),
			Hint: "permit AF_XDP (systemd: RestrictAddressFamilies; containers: seccomp), or boot a kernel with CONFIG_XDP_SOCKETS=y",
		}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return permissionError(err)
	default:
		return &Error{Op: "create an AF_XDP socket", Err: err}
	}
	if len(MissingCapabilities()) != 0 {
		return permissionError(unix.EPERM)
	}
	return nil
}

// MultiBufferSupported reports whether the kernel supports packets of several frames (Linux 6.6). It binds a socket to an interface
// that cannot exist: the kernel checks the flags first, so an unknown flag gives EINVAL instead of ENODEV.
func MultiBufferSupported() bool {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	err = unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_USE_SG, Ifindex: math.MaxInt32})
	_ = unix.Close(fd) // nothing was written through it
	return errors.Is(err, unix.ENODEV)
}

func permissionError(errno error) error {
	hint := "a sandbox forbids it (containers: seccomp), or CAP_NET_RAW is missing in the user namespace that owns the network namespace"
	if missing := MissingCapabilities(); len(missing) > 0 {
		hint = "missing " + strings.Join(missing, ", ") + ": run as root or grant them with setcap"
	}
	return &Error{Op: "use AF_XDP", Err: fmt.Errorf("%w: %w", ErrPermission, errno), Hint: hint}
}

// MissingNetRaw is the text of MissingCapabilities for CAP_NET_RAW, which rings do not need.
const MissingNetRaw = "CAP_NET_RAW (to open the socket)"

// MissingCapabilities lists the capabilities that the calling thread lacks for AF_XDP, with their purpose: CAP_NET_RAW creates the
// socket, CAP_NET_ADMIN attaches the XDP program and raises the send buffer, CAP_BPF loads the program. CAP_SYS_ADMIN includes
// CAP_BPF.
func MissingCapabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 uses two structs of 32 bits each
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil // unknown: the call that needs the capability will fail with a reason
	}
	has := func(c uint) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	var missing []string
	if !has(unix.CAP_NET_RAW) {
		missing = append(missing, MissingNetRaw)
	}
	if !has(unix.CAP_NET_ADMIN) {
		missing = append(missing, "CAP_NET_ADMIN (to attach the XDP program)")
	}
	if !has(unix.CAP_BPF) && !has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_BPF (to load the XDP program)")
	}
	return missing
}
