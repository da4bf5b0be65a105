package verbs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"

	"github.com/ndxdp/ndxdp/internal/memfault"
	"github.com/ndxdp/ndxdp/provider"
)

// maps is the file in which the kernel lists the mappings of this process.
const maps = "/proc/self/maps"

// Accessible returns nil if buf may be registered with these rights, and otherwise the reason. All of buf must be mapped for reading, and
// for writing if a right lets requests or peers write. It must not reach beyond the end of a mapped file. foreign says whether the process
// may lose the memory while it is registered.
//
// It examines mappings and touches no memory but a few pages of files. Writing to every page as a test would allocate untouched pages, and
// would race with other writers. It takes some 50 µs in a process with 40 mappings, whatever the length. If /proc is not mounted, mappings
// are not checked.
func Accessible(buf []byte, rights provider.Rights) (foreign bool, err error) {
	at, n := uint64(reflect.ValueOf(buf).Pointer()), uint64(len(buf))
	foreign = !ofHeap(at)
	f, err := os.Open(maps)
	if err != nil {
		return foreign, nil
	}
	defer func() { _ = f.Close() }() // read only
	files, err := accessibleIn(f, at, n, rights)
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
	low, high uint64
	mode      []byte
	file      bool // of a file, but not of a device, which reading might change
}

// accessibleIn is Accessible for n bytes at an address, as far as mappings say. It returns the mappings of files. from has lines like
// "c000000000-c000400000 rw-p 00000000 00:00 0", ascending. A mapping that changes meanwhile may appear in parts, and a part twice, but
// memory that stays mapped always appears (proc(5)).
func accessibleIn(from io.Reader, at, n uint64, rights provider.Rights) (files []mapping, err error) {
	write := rights&(provider.RightLocalWrite|provider.RightRemoteWrite) != 0
	lines := bufio.NewScanner(from)
	next := at // everything before it is accessible
	for lines.Scan() {
		m, ok := parseMapping(lines.Bytes())
		switch {
		case !ok || m.high <= next:
			continue
		case m.low > next:
			return nil, fmt.Errorf("byte %d of %d is not mapped", next-at, n)
		case m.mode[0] != 'r':
			return nil, fmt.Errorf("byte %d of %d is mapped without the right to read it", next-at, n)
		case write && m.mode[1] != 'w':
			return nil, fmt.Errorf("byte %d of %d is mapped read-only: register it without rights to write, local or remote, or map it writable",
				next-at, n)
		}
		if m.file {
			files = append(files, m)
		}
		if m.high-at >= n {
			return files, nil
		}
		next = m.high
	}
	if lines.Err() != nil { // the rest is unknown
		return files, nil
	}
	return nil, fmt.Errorf("byte %d of %d is not mapped", next-at, n)
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
	m = mapping{low: low, high: high, mode: fields[1]}
	if len(fields) > 5 {
		device := bytes.HasPrefix(fields[5], []byte("/dev/")) && !bytes.HasPrefix(fields[5], []byte("/dev/shm/")) && !bytes.HasPrefix(fields[5], []byte("/dev/hugepages"))
		m.file = fields[5][0] == '/' && !device
	}
	return m, err == nil
}
