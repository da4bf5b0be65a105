// Package user says which other processes are this user's, and where the user's files of this boot are. All functions may be called from any goroutine.
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

// defaultOverflow is the number that the kernel shows for users that a user namespace does not know, unless it was told another one.
const defaultOverflow = 65534

// overflow is that number on this machine.
var overflow = sync.OnceValue(func() uint32 {
	text, _ := os.ReadFile("/proc/sys/kernel/overflowuid") // without /proc it is the default one
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return defaultOverflow
	}
	return uint32(uid)
})

// everybody is what /proc/self/uid_map has where every user is known by one number of its own, as in the machine's first user namespace.
const everybody = "0 0 4294967295"

// knowsEverybody says so of the user namespace of this process. Tests replace it.
var knowsEverybody = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") == everybody
})

// Trusted reports whether a process of a user may be believed: root, or the user of this process. A user namespace that does not know every user shows the
// unknown ones by one number (65534), which is nobody's own there.
func Trusted(uid uint32) bool {
	unknown := !knowsEverybody() && (uid == defaultOverflow || uid == overflow())
	return uid == 0 || !unknown && uid == uint32(os.Geteuid())
}

// RuntimeDirectory is the directory for this user's files of this boot: $XDG_RUNTIME_DIR, else /run for root and /run/user/UID for other
// users. The variable is ignored unless it is an absolute path of a directory that belongs to this user and that not everybody may write
// to. So root makes no files in another user's directory if it runs with this user's environment. The error says why there is no directory;
// the path is the fallback.
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

// unusable says why a path is no directory of this user's; nil when it is one.
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

// MaxSocketPath is how many bytes the path of a Unix socket may have: sun_path holds 108, the last of which is 0.
const MaxSocketPath = 107

// CheckSocketPath says that a path is too long for a Unix socket.
func CheckSocketPath(path string) error {
	if len(path) > MaxSocketPath {
		return fmt.Errorf("the path %s has %d bytes, and that of a Unix socket %d at most: choose a shorter one", path, len(path), MaxSocketPath)
	}
	return nil
}
