package ndinspect

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	systemDir = "/run/ndxdp"
	suffix    = ".sock"
	dialLimit = replyTimeout
)

// Directory is where Serve makes sockets: $XDG_RUNTIME_DIR/ndxdp, or /run/ndxdp without that variable.
func Directory() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "ndxdp")
	}
	return systemDir
}

// Sockets lists the sockets in the directories where processes of this user make them, and for root also those of all users. Some
// may be left over from processes that were killed.
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
		return nil, fmt.Errorf("ndinspect: make the directory of the socket: %w (give another path, or set XDG_RUNTIME_DIR)", err)
	}
	private, err := os.MkdirTemp(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("ndinspect: %w (give another path, or set XDG_RUNTIME_DIR)", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	made := filepath.Join(private, "s")
	l, err = net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("ndinspect: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = publish(made, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ndinspect: %w", err), l.Close())
	}
	return l, nil
}

// publish gives the socket its name, in place of one that nobody listens on.
func publish(made, path string) error {
	err := os.Link(made, path)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if !stale(path) {
		return fmt.Errorf("%s is in use, or is no socket", path)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Link(made, path)
}

// stale says that nobody listens on the socket.
func stale(path string) bool {
	c, err := net.DialTimeout("unix", path, dialLimit)
	if err == nil {
		c.Close()
		return false
	}
	info, statErr := os.Lstat(path)
	return statErr == nil && info.Mode().Type() == os.ModeSocket && errors.Is(err, syscall.ECONNREFUSED)
}

// defaultPath is the name of the n-th socket of this process: it has one for each adapter that it opens to others.
func defaultPath(n int) string {
	name := strconv.Itoa(os.Getpid())
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	return filepath.Join(Directory(), name+suffix)
}
