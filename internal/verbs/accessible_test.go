package verbs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/procmap"
	"github.com/ndxdp/ndxdp/provider"
)

const page = 4096

// known are the mappings of the test's process.
var known, _ = procmap.Open() // tests need /proc

// protect maps adjacent pages with one protection each, and returns their memory. Protection zero unmaps the page.
func protect(t *testing.T, pages ...int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, len(pages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	for i, prot := range pages {
		if err := unix.Mprotect(b[i*page:(i+1)*page], prot); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestAccessible(t *testing.T) {
	const none, ro, rw = unix.PROT_NONE, unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE
	const local, remoteRead, remoteWrite = provider.RightLocalWrite, provider.RightRemoteRead, provider.RightRemoteWrite
	mapped := protect(t, rw, ro, rw, none, rw)
	text := "read-only data of this program, where constants are"
	for _, c := range []struct {
		name   string
		buf    []byte
		rights provider.Rights
		say    string // empty: it may be registered
	}{
		{"heap", make([]byte, 3*page), local | remoteRead | remoteWrite, ""},
		{"a byte of the heap", make([]byte, 1), local, ""},
		{"writable", mapped[:page], local | remoteWrite, ""},
		{"last byte", mapped[page-1 : page], local, ""},
		{"read-only, to read", mapped[page : 2*page], remoteRead, ""},
		{"three mappings, to read", mapped[:3*page], remoteRead, ""},
		{"read-only, local write", mapped[page : 2*page], local, "byte 0 of 4096 is mapped read-only"},
		{"read-only, remote write", mapped[page+5 : page+6], remoteWrite, "byte 0 of 1 is mapped read-only"},
		{"read-only in the middle", mapped[:3*page], local, "byte 4096 of 12288 is mapped read-only"},
		{"read-only at the end", mapped[1 : page+1], local, "byte 4095 of 4096 is mapped read-only"},
		{"no access", mapped[2*page:], 0, "byte 4096 of 12288 is mapped without the right to read it"},
		{"constants", []byte(text), local, ""}, // copied
	} {
		_, err := accessible(known, c.buf, c.rights)
		if c.say == "" && err != nil || c.say != "" && (err == nil || !strings.HasPrefix(err.Error(), c.say)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.say)
		}
	}
	if mapped[0] != 0 || mapped[4*page] != 0 {
		t.Error("it wrote")
	}
}

// A mapping may be longer than its file only outside of the registered range. Mapped files and memory of the program are foreign to
// the link.
func TestAccessibleOfFiles(t *testing.T) {
	fd, err := unix.MemfdCreate("short", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b, err := unix.Mmap(fd, 0, 8*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	for _, c := range []struct {
		size, low, high int
		say             string
	}{
		{8 * page, 0, 8 * page, ""},
		{0, 0, 1, "byte 0 of 1 is past the end of the mapped file"},
		{5*page - 7, 0, 5 * page, ""},
		{5 * page, 0, 5*page + 1, "byte 20480 of 20481 is past"},
		{5 * page, 100, 8 * page, "byte 20380 of 32668 is past"},
		{1, page + 1, page + 3, "byte 0 of 2 is past"},
	} {
		if err := unix.Ftruncate(fd, int64(c.size)); err != nil {
			t.Fatal(err)
		}
		foreign, err := accessible(known, b[c.low:c.high], 0)
		if c.say == "" && err != nil || c.say != "" && (err == nil || !strings.HasPrefix(err.Error(), c.say)) || !foreign {
			t.Errorf("%+v: foreign %v, %v", c, foreign, err)
		}
	}
	for name, buf := range map[string][]byte{"small": make([]byte, 1), "large": make([]byte, 64<<20)} {
		if foreign, err := accessible(known, buf, provider.RightLocalWrite); foreign || err != nil {
			t.Errorf("%s memory of Go: foreign %v, %v", name, foreign, err)
		}
	}
	if foreign, err := accessible(known, protect(t, unix.PROT_READ), 0); !foreign || err != nil {
		t.Errorf("a mapping: foreign %v, %v", foreign, err)
	}
}

// Lines of /proc maps that no test can provoke: holes, mappings in parts and twice, and a truncated file.
func TestAccessibleOfMappings(t *testing.T) {
	for _, c := range []struct {
		maps, say string
	}{
		{"1000-3000 rw-p 00000000 00:00 0\n", ""},
		{"1000-2000 rw-p 0 00:00 0 /a b\n1800-2800 rw-p 0 00:00 0\n1000-3000 rw-p 0 00:00 0\n", ""},
		{"1000-2000 rw-p 0\n2000-3000 r--p 0\n", "byte 3584 of 4096 is mapped read-only"},
		{"1000-2000 rw-p 0\n3000-4000 rw-p 0\n", "byte 3584 of 4096 is not mapped"},
		{"1000-2000 rw-p 0\n", "byte 3584 of 4096 is not mapped"},
		{"3000-4000 rw-p 0\n", "byte 0 of 4096 is not mapped"},
		{"", "byte 0 of 4096 is not mapped"},
		{"what is this\n1000-3000 rw-p 0\n", ""},
		{strings.Repeat("x", 1<<17), ""}, // nothing is known about it
	} {
		_, err := accessibleIn(strings.NewReader(c.maps), 0x1200, page, provider.RightLocalWrite)
		if c.say == "" && err != nil || c.say != "" && (err == nil || !strings.HasPrefix(err.Error(), c.say)) {
			t.Errorf("%q: %v, want %q", c.maps, err, c.say)
		}
	}
}

func BenchmarkAccessible(b *testing.B) {
	buf := make([]byte, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := accessible(known, buf, provider.RightLocalWrite); err != nil {
			b.Fatal(err)
		}
	}
}

// The kernel's answers about single mappings and its list of all mappings lead to the same result.
func TestAskingAndListingAgree(t *testing.T) {
	const both = unix.PROT_READ | unix.PROT_WRITE
	mixed, holed := protect(t, both, unix.PROT_READ, both), protect(t, both, 0, both)
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mapped, err := unix.Mmap(int(file.Fd()), 0, 2*page, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	at := func(buf []byte) uint64 { return uint64(reflect.ValueOf(buf).Pointer()) }
	for name, c := range map[string]struct{ at, n uint64 }{
		"heap": {at(make([]byte, 100)), 100}, "mixed": {at(mixed) + 5, 3*page - 5}, "hole": {at(holed), 3 * page},
		"file": {at(mapped) + 1, page}, "top": {1 << 63, 8}, "zero page": {0, 8},
	} {
		for _, rights := range []provider.Rights{0, provider.RightLocalWrite} {
			asked, one := askedFor(known, c.at, c.n, rights)
			if errors.Is(one, errNotAsked) {
				t.Skip("needs a kernel with PROCMAP_QUERY (Linux 6.11)")
			}
			among, all := listed(c.at, c.n, rights)
			if fmt.Sprint(one) != fmt.Sprint(all) || !slices.Equal(asked, among) {
				t.Errorf("%s, rights %v: asked %v %v, listed %v %v", name, rights, asked, one, among, all)
			}
		}
	}
}
