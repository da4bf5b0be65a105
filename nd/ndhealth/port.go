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

	"github.com/ndxdp/ndxdp/internal/datapath"
)

// portUse says whether the UDP port is free.
type portUse struct {
	err    error  // why that is not known
	shared bool   // another adapter has it
	taken  bool   // a program that is no adapter has it
	used   string // "process 12 (name)", "" when it is free or its user is not to be found
}

// useOf says who has the port at an address of an interface. It asks the kernel for names and sockets and makes none: an adapter that is opened meanwhile
// would find the port taken, or be a later one.
func useOf(index int, at netip.AddrPort) portUse {
	shared, err := datapath.HasAdapter(at)
	if err != nil || shared {
		return portUse{shared: shared, err: err}
	}
	inodes, err := socketsAt(index, at)
	if err != nil || len(inodes) == 0 {
		return portUse{err: err}
	}
	// An adapter has its name before its socket, so that one which was opened since the first look is known by its name now.
	if shared, err = datapath.HasAdapter(at); err != nil || shared {
		return portUse{shared: shared, err: err}
	}
	return portUse{taken: true, used: processWith(inodes)}
}

// socketsAt returns the inodes of the sockets that keep an adapter from the port.
func socketsAt(index int, at netip.AddrPort) (inodes []string, err error) {
	device, err := datapath.BoundTo(index)
	if err != nil {
		return nil, err
	}
	sockets, err := udpSocketsOn(at.Port())
	if err != nil {
		return nil, fmt.Errorf("list the UDP sockets with port %d: %w", at.Port(), err)
	}
	for _, s := range sockets {
		if s.keeps(device, at.Addr()) {
			inodes = append(inodes, strconv.FormatUint(uint64(s.inode), 10))
		}
	}
	return inodes, nil
}

// keeps says that the kernel gives nobody else the socket's port at an address, for a socket that is bound to a device, or to none for 0.
func (s *udpSocket) keeps(device int, at netip.Addr) bool {
	if s.device != 0 && device != 0 && s.device != device {
		return false
	}
	if s.local.IsUnspecified() {
		return s.local.Is4() == at.Is4() || at.Is4() && !s.only6
	}
	return s.local.Unmap() == at.Unmap()
}

// processWith names a process that has one of the sockets, as far as processes may be inspected.
func processWith(inodes []string) string {
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
	return ""
}
