// Package user decides which processes belong to this user, and where the user's runtime files are. Any goroutine may call its
// functions.
package user

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// defaultOverflow is the default number that the kernel shows for users without a mapping in a user namespace.
const defaultOverflow = 65534

// overflow is this number on this machine.
var overflow = sync.OnceValue(func() uint32 {
	text, _ := os.ReadFile("/proc/sys/kernel/overflowuid") // without /proc the default applies
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return defaultOverflow
	}
	return uint32(uid)
})

// everybody is the content of /proc/self/uid_map if every user is mapped to itself, as in the initial user namespace.
const everybody = "0 0 4294967295"

// knowsEverybody reports whether the user namespace of this process maps every user. Tests replace it.
var knowsEverybody = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") == everybody
})

// Trusted reports whether a process of a user may be trusted: the user is root, or the user of this process. In a user namespace that
// does not map every user, all unmapped users have one number (65534), which is never trusted.
func Trusted(uid uint32) bool {
	unknown := !knowsEverybody() && (uid == defaultOverflow || uid == overflow())
	return uid == 0 || !unknown && uid == uint32(os.Geteuid())
}

// RuntimeDirectory returns the directory for this user's runtime files: $XDG_RUNTIME_DIR, otherwise /run for root and /run/user/UID
// for other users. The variable is ignored unless it is the absolute path of a directory that belongs to this user and is not
// writable by others. So root makes no files in another user's directory if it runs with this user's environment. The error is the
// reason why there is no directory; the fallback is returned with it.
func RuntimeDirectory() (string, error) {
	named := os.Getenv("XDG_RUNTIME_DIR")
	why := unusable(named)
	if why == nil {
		return filepath.Clean(named), nil
	}
	uid := os.Geteuid()
	if uid == 0 {
		return "/run", nil
	}
	usual := filepath.Join("/run/user", strconv.Itoa(uid))
	if err := unusable(usual); err != nil {
		return usual, fmt.Errorf("XDG_RUNTIME_DIR %w, and %s %w", why, usual, err)
	}
	return usual, nil
}

// unusable returns the reason why a path is not a directory of this user, or nil.
func unusable(path string) error {
	switch {
	case path == "":
		return errors.New("is not set")
	case !filepath.IsAbs(path):
		return fmt.Errorf("is %q, which is no absolute path", path)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("does not exist")
	}
	if err != nil {
		return err
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return errors.New("is no directory")
	case !known || int(stat.Uid) != os.Geteuid():
		return errors.New("belongs to another user")
	case info.Mode()&0o002 != 0:
		return errors.New("may be written to by everybody")
	}
	return nil
}

// MaxSocketPath is the longest path of a Unix socket in bytes: sun_path has 108 bytes, the last of which is 0.
const MaxSocketPath = 107

// CheckSocketPath returns an error if a path is too long for a Unix socket.
func CheckSocketPath(path string) error {
	if len(path) > MaxSocketPath {
		return fmt.Errorf("the path %s has %d bytes, but a Unix socket's path has at most %d: choose a shorter path", path, len(path), MaxSocketPath)
	}
	return nil
}
