package procmap

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open opens the mappings of this process, on a kernel that can be asked for them.
func open(t *testing.T) *Maps {
	t.Helper()
	m, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // the test may have closed it
	if _, err := m.Query(0); errors.Is(err, unix.ENOTTY) {
		t.Skip("needs a kernel with PROCMAP_QUERY (Linux 6.11)")
	}
	return m
}

// A query returns limits, rights and file of the mapping, and the next mapping for an address that has none.
func TestQuery(t *testing.T) {
	maps := open(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(uintptr(unsafe.Pointer(&mem[0])))
	want := Mapping{Low: at, High: at + 4096, Readable: true, Name: path}
	if m, err := maps.Query(at + 100); m != want || err != nil {
		t.Errorf("%+v, %v, want %+v", m, err, want)
	}
	if err := unix.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	if m, err := maps.Query(at); err != nil || m.Low <= at {
		t.Errorf("after munmap: %+v, %v", m, err)
	}
	if _, err := maps.Query(math.MaxUint64); !errors.Is(err, unix.ENOENT) {
		t.Errorf("behind the last mapping: %v", err)
	}
	local := make([]byte, 1<<20)
	if m, err := maps.Query(uint64(uintptr(unsafe.Pointer(&local[0])))); err != nil || !m.Readable || !m.Writable || m.Name != "" {
		t.Errorf("memory of Go: %+v, %v", m, err)
	}
	if err := maps.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Query(0); err == nil {
		t.Error("a query after Close succeeds")
	}
}
