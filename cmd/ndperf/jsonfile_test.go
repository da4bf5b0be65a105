package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// TestReportLeavesDevicesInPlace: a report is written into a pipe or /dev/null and does not replace it. A report to a symbolic link goes
// to the link's target.
func TestReportLeavesDevicesInPlace(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"to-pipe": pipe, "to-file": file} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, kind := range map[string]os.FileMode{"pipe": os.ModeNamedPipe, "to-pipe": os.ModeSymlink, "to-file": os.ModeSymlink} {
		path := filepath.Join(dir, name)
		end, err := os.OpenFile(path, os.O_RDWR, 0) // both ends of a pipe, so that no open blocks
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		j, err := openJSON(path, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.write(newReport()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		j.abandon()
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s is %v now: %v", name, info.Mode(), err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bench.ReadReport(f); err != nil {
		t.Errorf("where the link leads: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
