package inspect

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// If a socket cannot be made for want of descriptors, nothing is left: neither a listening descriptor nor a file. The limit rises
// by one each time, until the socket can be made.
func TestNothingStaysWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	first, err := Serve(&fake{}, filepath.Join(dir, "first.sock")) // afterwards the runtime's poller has its descriptors
	must(t, err)
	must(t, first.Close())
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	restore := func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
	defer restore()
	free := func() int { // the lowest free number, which is above 0
		fd, err := syscall.Dup(0)
		must(t, err)
		must(t, syscall.Close(fd))
		return fd
	}
	free0 := free()
	for more := 0; ; more++ {
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(free0 + more), Max: limit.Max}))
		s, err := Serve(&fake{}, filepath.Join(dir, "x.sock"))
		restore()
		if err == nil {
			must(t, s.Close())
			break
		}
		if more > 64 {
			t.Fatalf("with 64 descriptors: %v", err)
		}
		if now := free(); now != free0 {
			t.Errorf("with %d more descriptors: %v, and number %d is in use", more, err, free0)
			free0 = now
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("with %d more descriptors: %v, %v are left", more, err, left)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", err, left)
	}
}
