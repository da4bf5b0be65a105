// Package hostkey keeps a secret in a file until the host restarts. With it, a restarted process can answer for the connections of its
// predecessor (PROTOCOL §7.4). Any goroutine may call its functions, and several processes at once.
package hostkey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/user"
)

// Len is the length of the secret in bytes.
const Len = 32

// file is the name of the file.
const file = "reset.key"

// Directory returns the directory of the file: below user.RuntimeDirectory, and for root always below /run, because all processes
// of root share one key, services and logins alike. The error is the reason why there is none.
func Directory() (string, error) {
	if os.Geteuid() == 0 {
		return "/run/ndxdp", nil
	}
	dir, err := user.RuntimeDirectory()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "ndxdp"), nil
}

// Load returns the host's secret, which the first caller makes. If no file can be trusted, it returns an error and a zero key.
func Load() (key [Len]byte, err error) {
	dir, err := Directory()
	if err != nil {
		return key, err
	}
	return In(dir)
}

// Fault returns the reason why Load would fail, as far as it can be known without making the file, or nil.
func Fault() error {
	dir, err := Directory()
	if err != nil {
		return err
	}
	return FaultIn(dir)
}

// FaultIn is Fault for another directory.
func FaultIn(dir string) error {
	err := private(dir, fs.ModeDir, 0o022)
	if err == nil {
		_, err = read(filepath.Join(dir, file))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// In is Load for another directory.
func In(dir string) (key [Len]byte, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return key, err
	}
	if err := private(dir, fs.ModeDir, 0o022); err != nil {
		return key, err
	}
	path := filepath.Join(dir, file)
	key, err = read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := create(dir, path); err != nil {
		return key, err
	}
	return read(path) // the key of the process that created the file first
}

// read reads the file if no other user can read it.
func read(path string) (key [Len]byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return key, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return key, err
	}
	if err := check(path, info, 0, 0o077); err != nil {
		return key, err
	}
	if info.Size() != Len {
		return key, fmt.Errorf("%s has %d bytes, want %d", path, info.Size(), Len)
	}
	if _, err := io.ReadFull(f, key[:]); err != nil {
		return [Len]byte{}, err
	}
	return key, nil
}

// create makes the file atomically: it writes another file and links it, which fails if another process was faster.
func create(dir, path string) error {
	f, err := os.CreateTemp(dir, ".reset.key-*") // has mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // the link stays
	var key [Len]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	_, err = f.Write(key[:])
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// private returns an error unless a path of the given type belongs to this user and other users have none of the permissions in
// deny.
func private(path string, kind, deny fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return check(path, info, kind, deny)
}

func check(path string, info fs.FileInfo, kind, deny fs.FileMode) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() != kind:
		return fmt.Errorf("%s has type %v, and must be a regular file or a directory", path, info.Mode().Type())
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", path)
	case info.Mode().Perm()&deny != 0:
		return fmt.Errorf("%s has mode %04o, which gives other users access", path, info.Mode().Perm())
	}
	return nil
}
