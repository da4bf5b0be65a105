package broker

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstInherited is the first descriptor passed by a service manager (sd_listen_fds(3)).
const firstInherited = 3

// Inherited returns the listening socket that a service manager passed to this process (LISTEN_PID, LISTEN_FDS), or nil if there is
// none. Its file stays when the listener is closed. It is called once.
func Inherited() (*net.UnixListener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil { // child processes must not inherit them
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, nil
	}
	if count != "1" {
		return nil, fmt.Errorf("LISTEN_FDS=%s: the service manager must pass one socket", count)
	}
	l, err := listenerOf(firstInherited)
	if err != nil {
		return nil, fmt.Errorf("listen at the socket of the service manager: %w", err)
	}
	return l, nil
}

// listenerOf takes ownership of the descriptor of a listening SOCK_SEQPACKET socket.
func listenerOf(fd int) (*net.UnixListener, error) {
	unix.CloseOnExec(fd)
	for option, want := range map[int]int{unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_SEQPACKET, unix.SO_ACCEPTCONN: 1} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		if err != nil {
			return nil, err
		}
		if got != want {
			return nil, fmt.Errorf("descriptor %d is not a listening Unix socket of type SOCK_SEQPACKET: set ListenSequentialPacket in the socket unit", fd)
		}
	}
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	l, err := net.FileListener(f) // it has a descriptor of its own
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
