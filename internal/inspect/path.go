package inspect

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/user"
)

const (
	systemDir = "/run/ndxdp"
	suffix    = ".sock"
	dialLimit = ReplyTimeout
)

// Directory returns where adapters make their sockets: ndxdp below user.RuntimeDirectory.
func Directory() string {
	dir, _ := user.RuntimeDirectory() // without one nobody has sockets there, and Serve says why
	return filepath.Join(dir, "ndxdp")
}

// Sockets lists the sockets in the directories for processes of this user, and for root also of all users. Some may be left over
// from processes that were killed.
func Sockets() []string {
	dirs := []string{Directory()}
	if dirs[0] != systemDir {
		dirs = append(dirs, systemDir)
	}
	if os.Geteuid() == 0 {
		users, _ := filepath.Glob("/run/user/*/ndxdp") // the pattern is good, and that is the only error
		for _, dir := range users {
			if dir != dirs[0] {
				dirs = append(dirs, dir)
			}
		}
	}
	var all []string
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)) // a name that Glob cannot read has no sockets
		all = append(all, found...)
	}
	return all
}

// listen makes a socket that only its owner can connect to, at a path that nobody listens on. It is made in a directory of
// its own and appears at its path complete, so that there is no moment at which others may connect.
func listen(path string) (l *net.UnixListener, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w (another path may do, or another XDG_RUNTIME_DIR)", err)
	}
	private, err := os.MkdirTemp(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("%w (another path may do, or another XDG_RUNTIME_DIR)", err)
	}
	made := filepath.Join(private, "s")
	// Names are removed one by one: os.RemoveAll takes a descriptor, and of a process that has none left nothing is to stay here.
	defer func() { _, _ = os.Remove(made), os.Remove(private) }()
	if err := errors.Join(user.CheckSocketPath(made), user.CheckSocketPath(path)); err != nil {
		return nil, err
	}
	l, err = net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = publish(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// errTaken says why a name is not to be had.
var errTaken = errors.New("is in use, or is no socket")

// publish gives the socket its name, in place of one that nobody listens on.
func publish(made, path string) error {
	err := os.Link(made, path)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if !stale(path) {
		return fmt.Errorf("%s %w", path, errTaken)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Link(made, path)
}

// stale reports whether nobody listens on the socket.
func stale(path string) bool {
	c, err := net.DialTimeout("unix", path, dialLimit)
	if err == nil {
		c.Close()
		return false
	}
	info, statErr := os.Lstat(path)
	return statErr == nil && info.Mode().Type() == os.ModeSocket && errors.Is(err, syscall.ECONNREFUSED)
}

// name returns what the n-th socket of this process is called: it has one for each adapter that it opens to others.
func name(n int) string {
	pid := strconv.Itoa(os.Getpid())
	if n > 0 {
		pid += "-" + strconv.Itoa(n)
	}
	return pid + suffix
}

// maxSwept bounds what one process looks at and removes of what others left.
const maxSwept = 64

// sweep removes the sockets in dir of processes that are gone: each would be found, and passed over, by every ndstat.
func sweep(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)) // a name that Glob cannot read has no sockets
	for _, path := range found[:min(len(found), maxSwept)] {
		pid, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), suffix), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil && stale(path) {
			_ = os.Remove(path) // another process may have been faster
		}
	}
}

// Namespace returns the number of the calling thread's network namespace, 0 when the kernel does not tell.
func Namespace() uint64 {
	var s syscall.Stat_t
	if syscall.Stat("/proc/thread-self/ns/net", &s) != nil {
		return 0
	}
	return s.Ino
}
