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

// portUse describes the use of the UDP port.
type portUse struct {
	err      error  // why this is unknown
	shared   bool   // another adapter has it
	holder   string // "process 12 of user 1000", if another user's process holds the name of the port; otherwise empty
	squatter string // who holds the name of the port without the port itself, or "a socket that does not listen"; otherwise empty
	taken    bool   // a program without an adapter has it
	used     string // "process 12 (name)", or "a process of user 1000" if the process is unknown; otherwise empty
}

// An adapter first takes its name, and its socket within squatPatience. The state is read every squatPause.
const squatPatience, squatPause = time.Second, 20 * time.Millisecond

// useOf determines the use of the port at an address of an interface. It reads the kernel's tables of names and sockets and binds
// nothing, because an adapter opened meanwhile would find the port in use.
func useOf(index int, at netip.AddrPort) portUse {
	for began := time.Now(); ; time.Sleep(squatPause) {
		u, sockets := lookAt(index, at)
		if !u.shared || len(sockets) > 0 || time.Since(began) > squatPatience {
			return u.judge(sockets, at)
		}
	}
}

// lookAt reads whether the port has the name of an adapter, and which sockets keep an adapter from the port.
func lookAt(index int, at netip.AddrPort) (u portUse, sockets []udpSocket) {
	if u.shared, u.err = sharing.HasAdapter(at); u.err != nil {
		return u, nil
	}
	if sockets, u.err = socketsAt(index, at); u.err != nil || u.shared || len(sockets) == 0 {
		return u, sockets
	}
	// An adapter takes its name before its socket, so the name of an adapter opened meanwhile is visible now.
	u.shared, u.err = sharing.HasAdapter(at)
	return u, sockets
}

// judge compares the holder of the name with the owner of the port.
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
	case !slices.ContainsFunc(sockets, func(s udpSocket) bool { return s.uid == who.UID || s.uid == 0 }): // the socket of a broker belongs to root
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

// keeps reports whether a socket keeps others from its port at an address. device is the device of the other socket, or 0.
func (s *udpSocket) keeps(device int, at netip.Addr) bool {
	if s.device != 0 && device != 0 && s.device != device {
		return false
	}
	if s.local.IsUnspecified() {
		return s.local.Is4() == at.Is4() || at.Is4() && !s.only6
	}
	return s.local.Unmap() == at.Unmap()
}

// processWith returns a process that has one of the sockets, if processes may be inspected, and otherwise the user of a socket.
func processWith(sockets []udpSocket) string {
	inodes := make([]string, len(sockets))
	for i := range sockets {
		inodes[i] = strconv.FormatUint(uint64(sockets[i].inode), 10)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/fd/*") // Glob only fails on a bad pattern
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
