package ndhealth

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/host"
)

// portUse says whether the UDP port is free.
type portUse struct {
	err      error  // why that is not known
	shared   bool   // another adapter has it
	holder   string // "process 12 of user 1000", who has the name of the port and is another user's; else empty
	squatter string // who has the name of the port without the port, or "a socket that does not listen"; else empty
	taken    bool   // a program that is no adapter has it
	used     string // "process 12 (name)", or "a process of user 1000" when the process is not to be found; else empty
}

// An adapter that is opened has its name first, and its socket within squatPatience; a look comes every squatPause.
const squatPatience, squatPause = time.Second, 20 * time.Millisecond

// useOf says who has the port at an address of an interface. It asks the kernel for names and sockets and binds none: an adapter that is opened meanwhile
// would find the port taken, or be a later one.
func useOf(index int, at netip.AddrPort) portUse {
	for began := time.Now(); ; time.Sleep(squatPause) {
		u, sockets := lookAt(index, at)
		if !u.shared || len(sockets) > 0 || time.Since(began) > squatPatience {
			return u.judge(sockets, at)
		}
	}
}

// lookAt finds whether the port has the name of an adapter, and the sockets that keep an adapter from the port.
func lookAt(index int, at netip.AddrPort) (u portUse, sockets []udpSocket) {
	if u.shared, u.err = sharing.HasAdapter(at); u.err != nil {
		return u, nil
	}
	if sockets, u.err = socketsAt(index, at); u.err != nil || u.shared || len(sockets) == 0 {
		return u, sockets
	}
	// An adapter has its name before its socket, so that one which was opened since the first look is known by its name now.
	u.shared, u.err = sharing.HasAdapter(at)
	return u, sockets
}

// judge compares who has the name with who has the port.
func (u portUse) judge(sockets []udpSocket, at netip.AddrPort) portUse {
	if u.err != nil {
		return portUse{err: u.err}
	}
	if !u.shared {
		if u.taken = len(sockets) > 0; u.taken {
			u.used = processWith(sockets)
		}
		return u
	}
	who, listens, err := sharing.HolderOf(at)
	if err != nil {
		return portUse{err: err}
	}
	switch {
	case !listens:
		u.squatter = "a socket that does not listen"
	case len(sockets) == 0:
		u.squatter = who.String()
	case !slices.ContainsFunc(sockets, func(s udpSocket) bool { return s.uid == who.UID || s.uid == 0 }): // a broker is root's
		u.taken, u.used = true, processWith(sockets)
	case !who.Trusted():
		u.holder = who.String()
	}
	u.shared = !u.taken && len(sockets) > 0
	return u
}

// socketsAt returns the sockets that keep an adapter from the port.
func socketsAt(index int, at netip.AddrPort) ([]udpSocket, error) {
	device, err := host.BoundTo(index)
	if err != nil {
		return nil, err
	}
	sockets, err := udpSocketsOn(at.Port())
	if err != nil {
		return nil, fmt.Errorf("list the UDP sockets with port %d: %w", at.Port(), err)
	}
	return slices.DeleteFunc(sockets, func(s udpSocket) bool { return !s.keeps(device, at.Addr()) }), nil
}

// keeps reports whether the kernel gives nobody else the socket's port at an address, for a socket that is bound to a device, or to none for 0.
func (s *udpSocket) keeps(device int, at netip.Addr) bool {
	if s.device != 0 && device != 0 && s.device != device {
		return false
	}
	if s.local.IsUnspecified() {
		return s.local.Is4() == at.Is4() || at.Is4() && !s.only6
	}
	return s.local.Unmap() == at.Unmap()
}

// processWith names a process that has one of the sockets, as far as processes may be inspected, and else the user who made one.
func processWith(sockets []udpSocket) string {
	inodes := make([]string, len(sockets))
	for i := range sockets {
		inodes[i] = strconv.FormatUint(uint64(sockets[i].inode), 10)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid, and that is the only error
	for _, path := range paths {
		target, err := os.Readlink(path)
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if err != nil || !isSocket || !slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
			continue
		}
		process := filepath.Dir(filepath.Dir(path))
		pid, err := strconv.Atoi(filepath.Base(process))
		name, failed := os.ReadFile(process + "/comm")
		if errors.Join(err, failed) == nil {
			return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return fmt.Sprintf("a process of user %d", sockets[0].uid)
}
