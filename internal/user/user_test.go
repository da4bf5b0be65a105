package user

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Root and the user of this process are trusted. A user without a number in this user namespace is not.
func TestTrusted(t *testing.T) {
	own, was := uint32(os.Geteuid()), knowsEverybody
	t.Cleanup(func() { knowsEverybody = was })
	for _, all := range []bool{true, false} {
		knowsEverybody = func() bool { return all }
		for uid, want := range map[uint32]bool{
			0: true, own: all || own != defaultOverflow, own + 1: false,
			defaultOverflow: all && own == defaultOverflow, overflow(): all && own == overflow(),
		} {
			if got := Trusted(uid); got != want {
				t.Errorf("user %d, seen by user %d, every user known %t: %t", uid, own, all, got)
			}
		}
	}
}

// usual returns the directory that is used without the variable.
func usual() string {
	if uid := os.Geteuid(); uid != 0 {
		return filepath.Join("/run/user", strconv.Itoa(uid))
	}
	return "/run"
}

// The variable counts if it names a directory of this user, and is ignored otherwise.
func TestRuntimeDirectory(t *testing.T) {
	mine := t.TempDir()
	file, open, link := filepath.Join(mine, "file"), filepath.Join(mine, "open"), filepath.Join(mine, "link")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(file, nil, 0o600))
	must(os.Mkdir(open, 0o700))
	must(os.Chmod(open, 0o777))
	must(os.Symlink(mine, link))
	t.Chdir(mine)
	must(os.Mkdir("relative", 0o700))
	for _, c := range []struct {
		named, why string // without a reason the directory is used
	}{
		{mine, ""},
		{mine + "/", ""},
		{"", "is not set"},
		{"relative", "no absolute path"},
		{"./relative", "no absolute path"},
		{filepath.Join(mine, "none"), "does not exist"},
		{file, "no directory"},
		{link, "no directory"},
		{open, "written to by everybody"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.named)
		want := usual()
		if c.why == "" {
			want = mine
		}
		if got, err := RuntimeDirectory(); got != want {
			t.Errorf("XDG_RUNTIME_DIR=%s: %s (%v), want %s", c.named, got, err, want)
		}
		if err := unusable(c.named); c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%q: %v, want %q", c.named, err, c.why)
		}
	}
}

// A directory of another user is ignored, whichever user this process has.
func TestRuntimeDirectoryOfAnotherUser(t *testing.T) {
	another := "/" // owned by root
	if os.Geteuid() == 0 {
		another = t.TempDir()
		if err := os.Chown(another, 1000, 1000); err != nil {
			t.Skip("only root with CAP_CHOWN has directories of others: ", err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", another)
	if got, err := RuntimeDirectory(); got != usual() {
		t.Errorf("%s (%v), want %s", got, err, usual())
	}
}

// The error about a path that the kernel would truncate contains the path and the limit.
func TestCheckSocketPath(t *testing.T) {
	if err := CheckSocketPath(strings.Repeat("a", MaxSocketPath)); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("a", MaxSocketPath+1)
	if err := CheckSocketPath(long); err == nil || !strings.Contains(err.Error(), long+" has 108 bytes") || !strings.Contains(err.Error(), "at most 107") {
		t.Error(err)
	}
}
