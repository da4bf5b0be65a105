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
	err    error  // of binding it; nil when it is free
	shared bool   // another adapter has it
	used   string // "process 12 (name)", "" when it is free or its user is not to be found
}

// useOf binds the port for a moment, at an address of an interface.
func useOf(index int, at netip.AddrPort) portUse {
	s, err := datapath.ListenUDP(index, at)
	if err == nil {
		err = s.Close()
		return portUse{err: err}
	}
	if shared, failed := datapath.HasAdapter(at); failed == nil && shared {
		return portUse{shared: true}
	}
	var inodes []string
	for _, table := range []string{"udp", "udp6"} {
		// Of this thread: /proc/net shows the network namespace of the main thread.
		if text, err := os.ReadFile("/proc/thread-self/net/" + table); err == nil {
			inodes = append(inodes, socketsOn(string(text), at.Port())...)
		}
	}
	return portUse{err: err, used: processWith(inodes)}
}

// socketsOn returns the inodes of the sockets of a table like /proc/net/udp that have a local port.
func socketsOn(table string, port uint16) (inodes []string) {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[1], suffix) {
			inodes = append(inodes, f[9])
		}
	}
	return inodes
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
