package memfault

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const page = 4096

// mapped returns mapped pages of a file, which at first is as long as the mapping.
func mapped(t *testing.T, pages int) (file *os.File, b []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("memfault", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file = os.NewFile(uintptr(fd), "memfault")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(int64(pages * page)); err != nil {
		t.Fatal(err)
	}
	if b, err = unix.Mmap(fd, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return file, b
}

func TestMemoryThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(file *os.File, b []byte) error{
		"file that is shorter": func(file *os.File, _ []byte) error { return file.Truncate(page) },
		"protected":            func(_ *os.File, b []byte) error { return unix.Mprotect(b[page:], unix.PROT_NONE) },
	} {
		t.Run(name, func(t *testing.T) {
			file, b := mapped(t, 2)
			own := make([]byte, 2*page)
			both := func() bool {
				return Try(b, func() { copy(own, b) }) && Try(b, func() { copy(b, own) }) && Readable(b)
			}
			if !both() {
				t.Fatal("memory that is there cannot be used")
			}
			if err := lose(file, b); err != nil {
				t.Fatal(err)
			}
			if Try(b, func() { copy(own, b) }) || Try(b, func() { copy(b, own) }) || Readable(b) || Readable(b[page-1:page+1]) {
				t.Error("memory that is lost can be used")
			}
			if !Readable(b[:page]) {
				t.Error("the page that is left cannot be used")
			}
		})
	}
}

// Memory may be read-only.
func TestReadOnlyMemory(t *testing.T) {
	_, b := mapped(t, 1)
	if err := unix.Mprotect(b, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if !Readable(b) || Try(b, func() { b[0] = 1 }) {
		t.Error("read-only memory is not, or more")
	}
}

// Panics that are not memory faults are passed on.
func TestOtherPanics(t *testing.T) {
	file, b := mapped(t, 2)
	if err := file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	var none *[page]byte
	for name, do := range map[string]func(){
		"panic":         func() { panic("other") },
		"nil":           func() { none[0] = 1 },
		"index":         func() { _ = b[:page][len(b)-1] },
		"other mapping": func() { Try(b[:page], func() { b[page]++ }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			Try(b[:page], do)
		}()
	}
}

func TestTryAllocatesNothing(t *testing.T) {
	from, to := make([]byte, 100), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { Try(to, func() { copy(to, from) }) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTry(b *testing.B) {
	from, to := make([]byte, 1400), make([]byte, 1400)
	for b.Loop() {
		Try(to, func() { copy(to, from) })
	}
}
