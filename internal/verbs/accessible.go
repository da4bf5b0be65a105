package verbs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/ndxdp/ndxdp/internal/memfault"
	"github.com/ndxdp/ndxdp/internal/procmap"
	"github.com/ndxdp/ndxdp/provider"
)

// maps is the file in which the kernel lists the mappings of this process.
const maps = "/proc/self/maps"

// Accessible returns nil if buf may be registered with these rights, and otherwise the reason. All of buf must be mapped for reading, and
// for writing if a right lets requests or peers write. It must not reach beyond the end of a mapped file. foreign says whether the process
// may lose the memory while it is registered.
//
// It examines mappings and touches no memory but a few pages of files. Writing to every page as a test would allocate untouched pages, and
// would race with other writers. It takes some microseconds: the kernel is asked for the mappings of buf alone. A kernel before Linux 6.11
// lists all mappings of the process, which takes some 50 µs for 40 of them. If /proc is not mounted, mappings are not checked.
func (a *Adapter) Accessible(buf []byte, rights provider.Rights) (foreign bool, err error) {
	return accessible(a.maps, buf, rights)
}

// accessible is Accessible with the mappings to ask for; nil if they cannot be opened.
func accessible(known *procmap.Maps, buf []byte, rights provider.Rights) (foreign bool, err error) {
	at, n := uint64(reflect.ValueOf(buf).Pointer()), uint64(len(buf))
	foreign = !ofHeap(at)
	if known == nil {
		return foreign, nil
	}
	files, err := askedFor(known, at, n, rights)
	if errors.Is(err, errNotAsked) {
		files, err = listed(at, n, rights)
	}
	if err != nil {
		return foreign, err
	}
	for _, m := range files {
		if err := inFile(buf, int(max(m.low, at)-at), int(min(m.high-at, n))); err != nil {
			return true, err
		}
	}
	return foreign || len(files) > 0, nil
}

// errNotAsked means that the kernel cannot be asked for single mappings.
var errNotAsked = errors.New("single mappings are unknown")

// listed is askedFor by the list of all mappings. Without the list, nothing is known.
func listed(at, n uint64, rights provider.Rights) (files []mapping, err error) {
	f, err := os.Open(maps)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }() // read only
	return accessibleIn(f, at, n, rights)
}

// heapAt is an address in Go's heap. The heap begins at an address that may be random, and grows upwards.
var heapAt = uint64(reflect.ValueOf(bytes.Repeat([]byte{0}, 1<<10)).Pointer())

const (
	heapBelow = 64 << 20  // one arena of the heap
	heapAbove = 256 << 30 // memory of a larger heap counts as foreign, which costs copies
)

// ofHeap reports whether an address is in Go's heap, or in a mapping near it.
func ofHeap(at uint64) bool {
	return at-heapAt+heapBelow < heapBelow+heapAbove
}

// pageSize is the smallest page size of any system.
const pageSize = 4096

// inFile returns an error if one of the bytes low to high of buf, which are mapped from a file, is beyond the end of the file.
func inFile(buf []byte, low, high int) error {
	if memfault.Readable(buf[high-1 : high]) {
		return nil
	}
	// Pages of buf begin at multiples of pageSize, less the offset of buf in its first page.
	lead := int(uint64(reflect.ValueOf(buf).Pointer()) % pageSize)
	first, last := (low+lead)/pageSize, (high-1+lead)/pageSize
	begins := func(i int) int { return max(low, (first+i)*pageSize-lead) }
	gone := sort.Search(last-first, func(i int) bool { return !memfault.Readable(buf[begins(i):][:1]) })
	return fmt.Errorf("byte %d of %d is past the end of the mapped file: make the file longer, or register fewer bytes", begins(gone), len(buf))
}

// mapping is a part of the address space.
type mapping struct {
	low, high          uint64
	readable, writable bool
	file               bool // of a file, but not of a device, which reading might change
}

// look goes over ascending mappings to find out whether n bytes at an address are accessible.
type look struct {
	at, n uint64
	write bool
	next  uint64    // everything before it is accessible
	files []mapping // mappings of files among the mappings seen
}

func newLook(at, n uint64, rights provider.Rights) look {
	return look{at: at, n: n, write: rights&(provider.RightLocalWrite|provider.RightRemoteWrite) != 0, next: at}
}

// see takes the next mapping. It reports whether all bytes were seen, and why they are not accessible.
func (l *look) see(m mapping) (done bool, err error) {
	switch {
	case m.high <= l.next:
		return false, nil
	case m.low > l.next:
		return true, l.missing()
	case !m.readable:
		return true, fmt.Errorf("byte %d of %d is mapped without the right to read it", l.next-l.at, l.n)
	case l.write && !m.writable:
		return true, fmt.Errorf("byte %d of %d is mapped read-only: register it without rights to write, local or remote, or map it writable",
			l.next-l.at, l.n)
	}
	if m.file {
		l.files = append(l.files, m)
	}
	l.next = m.high
	return m.high-l.at >= l.n, nil
}

func (l *look) missing() error { return fmt.Errorf("byte %d of %d is not mapped", l.next-l.at, l.n) }

// askedFor is Accessible for n bytes at an address, as far as mappings say. It asks the kernel for each mapping of the bytes, and returns
// the mappings of files. The error is errNotAsked if the kernel cannot be asked.
func askedFor(known *procmap.Maps, at, n uint64, rights provider.Rights) (files []mapping, err error) {
	l := newLook(at, n, rights)
	for {
		m, err := known.Query(l.next)
		if errors.Is(err, os.ErrNotExist) {
			return nil, l.missing()
		}
		if err != nil { // an older kernel, a closed adapter, or a name that is too long
			return nil, errNotAsked
		}
		done, err := l.see(mapping{m.Low, m.High, m.Readable, m.Writable, ofFile(m.Name)})
		if err != nil {
			return nil, err
		}
		if done {
			return l.files, nil
		}
	}
}

// accessibleIn is Accessible for n bytes at an address, as far as mappings say. It returns the mappings of files. from has lines like
// "c000000000-c000400000 rw-p 00000000 00:00 0", ascending. A mapping that changes meanwhile may appear in parts, and a part twice, but
// memory that stays mapped always appears (proc(5)).
func accessibleIn(from io.Reader, at, n uint64, rights provider.Rights) (files []mapping, err error) {
	l, lines := newLook(at, n, rights), bufio.NewScanner(from)
	for lines.Scan() {
		m, ok := parseMapping(lines.Bytes())
		if !ok {
			continue
		}
		done, err := l.see(m)
		if err != nil {
			return nil, err
		}
		if done {
			return l.files, nil
		}
	}
	if lines.Err() != nil { // the rest is unknown
		return l.files, nil
	}
	return nil, l.missing()
}

// parseMapping parses a line: addresses, mode, offset, device, inode, name.
func parseMapping(line []byte) (m mapping, ok bool) {
	first, rest, _ := bytes.Cut(line, []byte("-"))
	fields := bytes.Fields(rest)
	if len(fields) < 2 || len(fields[1]) < 2 {
		return m, false
	}
	low, err := strconv.ParseUint(string(first), 16, 64)
	if err != nil {
		return m, false
	}
	high, err := strconv.ParseUint(string(fields[0]), 16, 64)
	m = mapping{low: low, high: high, readable: fields[1][0] == 'r', writable: fields[1][1] == 'w'}
	if len(fields) > 5 {
		m.file = ofFile(string(fields[5]))
	}
	return m, err == nil
}

// ofFile reports whether the name of a mapping is the name of a file that is no device.
func ofFile(name string) bool {
	device := strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/dev/shm/") && !strings.HasPrefix(name, "/dev/hugepages")
	return strings.HasPrefix(name, "/") && !device
}
