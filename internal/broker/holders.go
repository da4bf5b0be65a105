package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A queue stays bound as long as any process has its socket, by a descriptor or by rings that it mapped, and the kernel has no way to
// take a socket back: closing other copies, removing it from the map and setting the interface down leave the queue busy (Linux 6.18). So a
// client that handed its sockets on, and then ended, would keep everybody else out. The only thing that helps is the end of the
// process that has them.

// HeldError says that somebody has what Server.Open was to open. Its text is that of the cause.
type HeldError struct{ Err error }

// Error implements error.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *HeldError) Unwrap() error { return e.Err }

// given is what the client of a lease got.
type given struct {
	sockets []string // as /proc shows them
	uid     uint32
}

const (
	// maxGiven is for how many leases the sockets are remembered. Sockets that a later client does not need may be held for longer.
	maxGiven = 8
	// takeBackRounds bounds how often one looks for processes that have sockets: each may have made another one meanwhile.
	takeBackRounds = 3
)

// remember notes what a client got.
func (s *Server) remember(fds []int, uid uint32) error {
	g := given{uid: uid}
	for _, fd := range fds {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return fmt.Errorf("look at a descriptor to pass on: %w", err)
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFSOCK {
			g.sockets = append(g.sockets, fmt.Sprintf("socket:[%d]", stat.Ino))
		}
	}
	s.given = append(s.given, g)
	s.given = s.given[max(0, len(s.given)-maxGiven):]
	return nil
}

// takeBack ends processes of earlier clients' users that still have sockets of theirs, and reports whether there were any. What it
// may not end, it names: asker, who wants the adapter now, is among them.
func (s *Server) takeBack(asker int32) (ended bool, left error) {
	owners := ownersOf(s.given)
	for range takeBackRounds {
		again := false
		left = nil
		for _, pid := range holders(owners) {
			switch who, err := end(pid, owners, asker); {
			case err == nil:
				s.Say(fmt.Sprintf("ended %s, which kept a socket of an earlier client", who))
				ended, again = true, true
			case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH): // else it ended by itself
				left = errors.Join(left, fmt.Errorf("%s keeps a socket of an earlier client, and %w", who, err))
			}
		}
		if !again {
			break
		}
	}
	return ended, left
}

// owners says which user each socket was given to.
type owners map[string]uint32

func ownersOf(all []given) owners {
	o := owners{}
	for _, g := range all {
		for _, socket := range g.sockets {
			o[socket] = g.uid
		}
	}
	return o
}

// holders finds the processes that have one of the sockets, as far as they may be inspected.
func holders(o owners) (pids []int) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid, and that is the only error
	for _, dir := range processes {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			if _, has := holds(dir, o); has {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// holds says whether the process with a directory of /proc has one of the sockets open or mapped, and whom that was given to.
func holds(dir string, o owners) (uid uint32, has bool) {
	fds, _ := filepath.Glob(dir + "/fd/*") // as above
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // one that was closed meanwhile is not held
		if uid, has = o[target]; has {
			return uid, true
		}
	}
	mapped, _ := os.ReadFile(dir + "/maps") // as above
	for socket, uid := range o {
		if strings.Contains(string(mapped), " "+socket+"\n") {
			return uid, true
		}
	}
	return 0, false
}

// end ends a process that has one of the sockets, and waits until it is gone. It must belong to the user that the socket was given
// to: nobody gets a process of other users ended by sending it a socket. who names it.
func end(pid int, o owners, asker int32) (who string, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	name, _ := os.ReadFile(dir + "/comm") // without a name if it has just ended
	who = fmt.Sprintf("process %d (%q)", pid, strings.TrimSpace(string(name)))
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return who, fmt.Errorf("cannot be ended: %w", err)
	}
	defer unix.Close(handle)
	// Read after the handle was opened: it describes the handle's process, not an earlier process with the same number.
	uid, has := holds(dir, o)
	status, err := os.ReadFile(dir + "/status")
	switch {
	case err != nil:
		return who, fmt.Errorf("cannot be inspected: %w", err)
	case !has:
		return who, os.ErrNotExist
	case !slices.Contains(strings.Split(string(status), "\n"), fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d", uid, uid, uid, uid)):
		return who, fmt.Errorf("does not belong to that client's user %d: end it", uid)
	case pid == int(asker):
		return who, errors.New("it is the client that asks: it must close its lease first")
	case pid == 1 || pid == os.Getpid():
		return who, errors.New("is not to be ended")
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		return who, fmt.Errorf("cannot be ended (CAP_KILL): %w", err)
	}
	gone := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	for deadline := time.Now().Add(handover); ; {
		n, err := unix.Poll(gone, int(max(0, time.Until(deadline)).Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR || time.Now().After(deadline) {
			return who, nil
		}
	}
}
