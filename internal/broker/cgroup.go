package broker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// errEnded means that the process has ended, so nothing more can be read about it.
var errEnded = errors.New("the client's cgroup is not known: the process that connected has ended")

// peerCgroup reads the cgroup of the process that connected to a socket. pid is its number at that time. After a process has ended,
// its number may be reused. So a descriptor (SO_PEERPIDFD) holds the process while its cgroup is read by number.
func peerCgroup(fd int, pid int32) (string, error) {
	if pid == 0 {
		return "", errors.New("the client's cgroup is not known: its process is in a PID namespace that the broker does not see: run the broker in this namespace or in its parent")
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return "", noDescriptor(err)
	}
	defer unix.Close(pidfd)
	return cgroupOf(pidfd, pid)
}

// noDescriptor explains why there is no descriptor of the process that connected.
func noDescriptor(err error) error {
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return errors.New("the client's cgroup is not known: this kernel has no SO_PEERPIDFD (Linux 6.5), and without it another process could be taken for the client: " +
			"admit it by user or group")
	case errors.Is(err, unix.ESRCH):
		return errEnded
	}
	return fmt.Errorf("ask the kernel for a descriptor of the client's process (SO_PEERPIDFD): %w", err)
}

// cgroupOf reads the cgroup of the process with descriptor pidfd and number pid. It fails if the process has ended meanwhile.
// Before that, no other process could have its number.
func cgroupOf(pidfd int, pid int32) (string, error) {
	// The mounted /proc may belong to another PID namespace, where the number is another process.
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return "", fmt.Errorf("look up the client's process in /proc: %w", err)
	}
	same := slices.Contains(strings.Split(string(info), "\n"), fmt.Sprintf("Pid:\t%d", pid))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	over, failed := ended(pidfd)
	switch {
	case failed != nil:
		return "", failed
	case over:
		return "", errEnded
	case !same:
		return "", fmt.Errorf("the client's cgroup is not known: /proc is of another PID namespace than the broker, and does not show process %d: mount its own", pid)
	case err != nil:
		return "", fmt.Errorf("read the client's cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); is {
			return path, nil
		}
	}
	return "", fmt.Errorf("the client's cgroup is not known: /proc/%d/cgroup names none of version 2: mount cgroup2", pid)
}

// ended reports whether the process of a descriptor has ended, even if its parent has not reaped it.
func ended(pidfd int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err == nil {
			return n > 0, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("ask whether the client's process has ended: %w", err)
		}
	}
}
