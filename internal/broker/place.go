package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/internal/user"
)

// Directory is where clients look for brokers by default. It is not the directory of the library's own files (internal/hostkey),
// which only root may enter.
const Directory = "/run/ndbroker"

// At returns the path of the socket where clients look for the broker of an interface by default.
func At(directory, name string) string { return filepath.Join(directory, name) }

// ErrNone means that no broker has a socket at the default path.
var ErrNone = errors.New("no broker")

// DialUnbidden requests an adapter from a broker at a default path, if root or our own user runs it, because any other broker could
// read our traffic. It waits at most patience. If there is no socket, the error is ErrNone.
func DialUnbidden(path string, r Request, patience time.Duration) (*Lease, error) {
	r.Unbidden = true
	if err := Believed(path); err != nil {
		return nil, err
	}
	return dial(path, r, patience, func(conn *net.UnixConn) error {
		peer, err := credentials(conn)
		if err == nil && !user.Trusted(peer.Uid) {
			err = fmt.Errorf("the broker belongs to user %d: only a broker of root or of this user is trusted", peer.Uid)
		}
		return err
	})
}

// Believed returns nil if the broker at path may be asked. It returns ErrNone if there is none, and another error if the listener
// may be an impostor.
func Believed(path string) error {
	for _, c := range []struct {
		path string
		kind fs.FileMode
		wide fs.FileMode // permissions that let other users change it
	}{{filepath.Dir(path), fs.ModeDir, 0o022}, {path, fs.ModeSocket, 0}} {
		info, err := os.Lstat(c.path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w listens at %s", ErrNone, path)
		}
		if err != nil {
			return fmt.Errorf("look for a broker: %w", err)
		}
		stat, known := info.Sys().(*syscall.Stat_t)
		switch {
		case info.Mode().Type() != c.kind:
			return fmt.Errorf("the broker at %s is not used: %s is the wrong kind of file (%s)", path, c.path, info.Mode())
		case !known || !user.Trusted(stat.Uid) || info.Mode()&c.wide != 0:
			return fmt.Errorf("the broker at %s is not used: users other than root and this user own %s or may change it (%s)", path, c.path, info.Mode())
		}
	}
	return nil
}
