package hostkey

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/user"
)

// The first process makes the key. All concurrent and later ones get the same key, and no other file is left.
func TestOneKeyForAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ndxdp")
	if err := FaultIn(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a check for faults created the directory")
	}
	var keys [32][Len]byte
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = In(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	again, err := In(dir)
	if err != nil || again == [Len]byte{} {
		t.Fatal(err, again)
	}
	if err := FaultIn(dir); err != nil {
		t.Error(err)
	}
	for i := range keys {
		if keys[i] != again {
			t.Errorf("caller %d has another key", i)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "reset.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	other, err := In(filepath.Join(t.TempDir(), "ndxdp"))
	if err != nil || other == again {
		t.Error("another host has the same key", err)
	}
}

// A key file is not trusted if another user made it or may read it, or if it is incomplete. It is left unchanged.
func TestKeyThatIsNotTrusted(t *testing.T) {
	for name, spoil := range map[string]func(dir, path string) error{
		"readable by others": func(_, path string) error { return os.Chmod(path, 0o640) },
		"short":              func(_, path string) error { return os.Truncate(path, 5) },
		"long":               func(_, path string) error { return os.Truncate(path, 64) },
		"a link": func(dir, path string) error {
			if err := os.Rename(path, filepath.Join(dir, "other")); err != nil {
				return err
			}
			return os.Symlink("other", path)
		},
		"a directory": func(_, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
		"in a directory that others may write": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"in a directory behind a link": func(dir, _ string) error {
			if err := os.Rename(dir, dir+"-other"); err != nil {
				return err
			}
			return os.Symlink(dir+"-other", dir)
		},
		"of another user": func(_, path string) error {
			if os.Geteuid() != 0 {
				t.Log("only root can make a file of another user")
				return os.Chmod(path, 0o606)
			}
			return os.Chown(path, 12345, 0)
		},
	} {
		dir := filepath.Join(t.TempDir(), "ndxdp")
		if _, err := In(dir); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir, filepath.Join(dir, "reset.key")); err != nil {
			t.Fatal(err)
		}
		if FaultIn(dir) == nil {
			t.Errorf("%s: no error reports it", name)
		}
		if key, err := In(dir); err == nil || key != [Len]byte{} {
			t.Errorf("%s: %v, %x", name, err, key)
		}
	}
}

// Without a directory there is no key, and the reason is reported.
func TestNoDirectory(t *testing.T) {
	if _, err := In(filepath.Join(t.TempDir(), "missing", "ndxdp")); err == nil {
		t.Error("a key without a directory")
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if _, missing := user.RuntimeDirectory(); missing != nil {
		if _, err := Load(); err == nil || err.Error() != missing.Error() {
			t.Errorf("without a directory of the user's: %v, want %v", err, missing)
		}
	}
}
