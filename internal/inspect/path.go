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

// Directory returns the directory of adapters' sockets: ndxdp below user.RuntimeDirectory.
func Directory() string {
	dir, _ := user.RuntimeDirectory() // without a directory there are no sockets, and Serve reports the reason
	return filepath.Join(dir, "ndxdp")
}

// Sockets lists the sockets in the directories for processes of this user, and for root in the directories of all users. Some may
// belong to killed processes.
func Sockets() []string {
	dirs := []string{Directory()}
	if dirs[0] != systemDir {
		dirs = append(dirs, systemDir)
	}
	if os.Geteuid() == 0 {
		users, _ := filepath.Glob("/run/user/*/ndxdp") // Glob only fails on a bad pattern
		for _, dir := range users {
			if dir != dirs[0] {
				dirs = append(dirs, dir)
			}
		}
	}
	var all []string
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)) // a directory that Glob cannot read has no sockets
		all = append(all, found...)
	}
	return all
}

// listen makes a socket that only its owner can connect to, at a free path. It makes the socket in a private directory and then
// moves it to its path, so that other users can never connect.
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
	// Files are removed one by one, because os.RemoveAll needs a descriptor, which the process may not have.
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

// errTaken returns the reason why a path cannot be used.
var errTaken = errors.New("is in use, or is no socket")

// publish moves the socket to its path, and replaces an abandoned one.
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

// stale reports whether no process listens on the socket.
func stale(path string) bool {
	c, err := net.DialTimeout("unix", path, dialLimit)
	if err == nil {
		c.Close()
		return false
	}
	info, statErr := os.Lstat(path)
	return statErr == nil && info.Mode().Type() == os.ModeSocket && errors.Is(err, syscall.ECONNREFUSED)
}

// name returns the name of the n-th socket of this process, which has one for each adapter.
func name(n int) string {
	pid := strconv.Itoa(os.Getpid())
	if n > 0 {
		pid += "-" + strconv.Itoa(n)
	}
	return pid + suffix
}

// maxSwept is the largest number of files that a process examines and removes.
const maxSwept = 64

// sweep removes the sockets in dir of ended processes, because every ndstat would have to try them.
func sweep(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)) // a directory that Glob cannot read has no sockets
	for _, path := range found[:min(len(found), maxSwept)] {
		pid, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), suffix), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil && stale(path) {
			_ = os.Remove(path) // another process may have removed it already
		}
	}
}

// Namespace returns the number of the calling thread's network namespace, or 0 if unknown.
func Namespace() uint64 {
	var s syscall.Stat_t
	if syscall.Stat("/proc/thread-self/ns/net", &s) != nil {
		return 0
	}
	return s.Ino
}
