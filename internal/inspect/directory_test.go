package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With the environment of another user, root creates nothing in that user's directory. A relative path creates nothing in the
// working directory.
func TestNothingIsMadeInAnothersDirectory(t *testing.T) {
	theirs := t.TempDir()
	if os.Geteuid() == 0 {
		must(t, os.Chown(theirs, 1000, 1000))
	} else {
		theirs = "/" // owned by root
	}
	here := t.TempDir()
	t.Chdir(here)
	must(t, os.Mkdir("relative", 0o700))
	for named, dir := range map[string]string{theirs: theirs, "relative": filepath.Join(here, "relative")} {
		t.Setenv("XDG_RUNTIME_DIR", named)
		if s, err := Serve(&fake{}, ""); err == nil {
			if strings.HasPrefix(s.Path(), dir+"/ndxdp") {
				t.Errorf("XDG_RUNTIME_DIR=%s: the socket is %s", named, s.Path())
			}
			must(t, s.Close())
		}
		if _, err := os.Lstat(filepath.Join(dir, "ndxdp")); !os.IsNotExist(err) {
			t.Errorf("XDG_RUNTIME_DIR=%s: there is a directory (%v)", named, err)
		}
	}
}

// The error about a socket path that is too long contains the path and the limit, whatever set the path, and no file is left.
func TestLongPath(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	must(t, os.Mkdir(deep, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", deep)
	for _, path := range []string{"", filepath.Join(deep, "x.sock")} {
		if _, err := Serve(&fake{}, path); err == nil || !strings.Contains(err.Error(), deep) || !strings.Contains(err.Error(), "at most 107") {
			t.Errorf("%q: %v", path, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(deep, "*", "*"))
	must(t, err)
	more, err := filepath.Glob(filepath.Join(deep, "ndxdp", ".*"))
	must(t, err)
	if all := append(left, more...); len(all) != 0 {
		t.Errorf("%q are left", all)
	}
}
