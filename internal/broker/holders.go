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

// A queue stays bound while any process has its socket, by a descriptor or by mapped rings. The kernel cannot revoke a socket: closing
// other copies, removing the socket from the map and setting the interface down leave the queue busy (Linux 6.18). So a client that
// passes its sockets on and then ends would block all other clients. Only ending the processes that hold the sockets helps.

// HeldError means that another process still holds the queue that Server.Open tried to open. Its text is the text of the cause.
type HeldError struct{ Err error }

// Error implements error.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *HeldError) Unwrap() error { return e.Err }

// given is what the client of a lease received.
type given struct {
	sockets []string // as shown in /proc
	uid     uint32
}

const (
	// maxGiven is the number of newest leases whose sockets are remembered. A process may keep the sockets of an older lease: no client
	// needs them.
	maxGiven = 8
	// takeBackRounds bounds the number of searches for processes that hold sockets, because each of them may fork meanwhile.
	takeBackRounds = 3
)

// remember records the sockets that a client received.
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

// takeBack ends processes of earlier clients' users that still hold sockets of these clients, and reports whether there were any.
// left names processes that it may not end. One of them may be asker, the process that now requests the adapter.
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
			case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH): // otherwise it ended by itself
				left = errors.Join(left, fmt.Errorf("%s keeps a socket of an earlier client: %w", who, err))
			}
		}
		if !again {
			break
		}
	}
	return ended, left
}

// owners maps each socket to the user that received it.
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

// holders returns the processes that hold one of the sockets, as far as they may be inspected.
func holders(o owners) (pids []int) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // Glob only fails on a bad pattern
	for _, dir := range processes {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			if _, has := holds(dir, o); has {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// holds reports whether the process with a directory of /proc has one of the sockets open or mapped, and the user that received
// this socket.
func holds(dir string, o owners) (uid uint32, has bool) {
	fds, _ := filepath.Glob(dir + "/fd/*") // as above
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // a descriptor closed meanwhile does not count
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

// end ends a process that holds one of the sockets, and waits for its end. The process must belong to the user that received the
// socket. Otherwise a user could end other users' processes by sending them a socket. who describes the process.
func end(pid int, o owners, asker int32) (who string, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	name, _ := os.ReadFile(dir + "/comm") // empty if the process has just ended
	who = fmt.Sprintf("process %d (%q)", pid, strings.TrimSpace(string(name)))
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return who, fmt.Errorf("open a descriptor of the process: %w", err)
	}
	defer unix.Close(handle)
	// The status is read after the descriptor was opened, so it describes the same process and not an earlier process with this number.
	uid, has := holds(dir, o)
	status, err := os.ReadFile(dir + "/status")
	switch {
	case err != nil:
		return who, fmt.Errorf("read the status of the process: %w", err)
	case !has:
		return who, os.ErrNotExist
	case !slices.Contains(strings.Split(string(status), "\n"), fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d", uid, uid, uid, uid)):
		return who, fmt.Errorf("the process does not belong to the client's user %d: end the process", uid)
	case pid == int(asker):
		return who, errors.New("the process is the client that now requests an adapter: it must close its lease first")
	case pid == 1 || pid == os.Getpid():
		return who, errors.New("the broker does not end init or itself")
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		return who, fmt.Errorf("end the process (needs CAP_KILL): %w", err)
	}
	gone := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	for deadline := time.Now().Add(handover); ; {
		n, err := unix.Poll(gone, int(max(0, time.Until(deadline)).Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR || time.Now().After(deadline) {
			return who, nil
		}
	}
}
