package udp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// soundMerging is the first Linux version whose UDP_GRO does not damage datagrams that it merges within a machine.
var soundMerging = [2]int{5, 12}

// Runs returns nil if sockets of this machine can send GSO batches and split merged datagrams, as far as this is known before the
// first batch. Otherwise it returns the reason.
func (n *Network) Runs() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read the version of the kernel: %w", err)
	}
	if err := merges(unix.ByteSliceToString(u.Release[:])); err != nil {
		return err
	}
	fd, err := n.Socket(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written through it
	if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0); err != nil {
		return fmt.Errorf("the kernel has no UDP_SEGMENT: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
		return fmt.Errorf("the kernel has no UDP_GRO: %w", err)
	}
	return nil
}

// merges returns an error if a release of Linux may damage merged datagrams.
func merges(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return errors.New("a kernel of unknown version: " + release)
	}
	if major < soundMerging[0] || major == soundMerging[0] && minor < soundMerging[1] {
		return fmt.Errorf("the kernel (%s) may damage datagrams that it merges: Linux %d.%d is needed", release, soundMerging[0], soundMerging[1])
	}
	return nil
}
