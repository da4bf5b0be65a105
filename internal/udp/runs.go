package udp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// soundMerging is the first Linux in which what UDP_GRO merges on its way through a machine is whole.
var soundMerging = [2]int{5, 12}

// Runs says why sockets of this machine cannot send GSO batches and split merged datagrams. It returns nil if they can, as far as that is
// known before the first batch.
func (n *Network) Runs() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("ask for the version of the kernel: %w", err)
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

// merges says whether a release of Linux merges soundly.
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
