package verbs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"

	"github.com/ndxdp/ndxdp/provider"
)

// maps is where the kernel shows the mappings of this process.
const maps = "/proc/self/maps"

// Accessible says why buf may not be registered with these rights, and nil when it may: all of it must be mapped for reading, and for
// writing when a right lets requests or peers write. A packet for memory that is not would end the process.
//
// It looks at mappings and touches no memory: to try a write to every page would take memory for those that nobody has used
// yet, and race with whoever writes them. It takes some 50 µs in a process with 40 mappings, whatever the length. Where /proc is not
// mounted nothing is known and nothing refused.
func Accessible(buf []byte, rights provider.Rights) error {
	f, err := os.Open(maps)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // read only
	return accessibleIn(f, uint64(reflect.ValueOf(buf).Pointer()), uint64(len(buf)), rights)
}

// accessibleIn is Accessible for n bytes at an address, from lines like "c000000000-c000400000 rw-p 00000000 00:00 0", ascending. A mapping
// that changes meanwhile may show in parts, and a part twice, but what stays mapped is always there (proc(5)).
func accessibleIn(from io.Reader, at, n uint64, rights provider.Rights) error {
	write := rights&(provider.RightLocalWrite|provider.RightRemoteWrite) != 0
	lines := bufio.NewScanner(from)
	next := at // all before it may be used
	for lines.Scan() {
		low, high, mode, ok := mapping(lines.Bytes())
		switch {
		case !ok || high <= next:
			continue
		case low > next:
			return fmt.Errorf("byte %d of %d is not mapped", next-at, n)
		case mode[0] != 'r':
			return fmt.Errorf("byte %d of %d is mapped without the right to read it", next-at, n)
		case write && mode[1] != 'w':
			return fmt.Errorf("byte %d of %d is mapped read-only: register it without rights to write, local or remote, or map it writable",
				next-at, n)
		case high-at >= n:
			return nil
		}
		next = high
	}
	if err := lines.Err(); err != nil { // nothing is known of the rest
		return nil
	}
	return fmt.Errorf("byte %d of %d is not mapped", next-at, n)
}

// mapping parses a line.
func mapping(line []byte) (low, high uint64, mode []byte, ok bool) {
	first, rest, _ := bytes.Cut(line, []byte("-"))
	last, mode, _ := bytes.Cut(rest, []byte(" "))
	low, err := strconv.ParseUint(string(first), 16, 64)
	if err != nil {
		return 0, 0, nil, false
	}
	high, err = strconv.ParseUint(string(last), 16, 64)
	return low, high, mode, err == nil && len(mode) >= 2
}
