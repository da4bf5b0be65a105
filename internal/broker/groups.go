package broker

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	groupBytes  = 4     // size of a gid_t
	someGroups  = 64    // enough for most processes in one call
	groupsLimit = 65536 // NGROUPS_MAX
)

// peerGroups returns the supplementary groups that the peer of a socket had when it connected (SO_PEERGROUPS).
func peerGroups(fd int) ([]uint32, error) {
	for room := uint32(someGroups); ; {
		groups := make([]uint32, room)
		size := room * groupBytes
		// unsafe: x/sys/unix has no call for this option. In bounds because size says how long groups is; both live across the call.
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		switch needed := size / groupBytes; {
		case errno == 0:
			return groups[:needed], nil
		case errno == unix.ERANGE && room < needed && needed <= groupsLimit:
			room = needed
		default:
			return nil, fmt.Errorf("ask the kernel for the groups of the client (SO_PEERGROUPS): %w", errno)
		}
	}
}
