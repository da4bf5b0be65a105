// Package procmap asks the kernel for single mappings of this process (PROCMAP_QUERY of Linux 6.11), without reading the text of all of them.
package procmap

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapping is a part of the address space, from Low up to High.
type Mapping struct {
	Low, High          uint64
	Readable, Writable bool
	Name               string // of the mapped file; empty for memory without a file
}

// query is struct procmap_query of linux/fs.h.
type query struct {
	size, flags, address              uint64
	low, high, vmaFlags, page, offset uint64
	inode                             uint64
	major, minor, nameSize, buildSize uint32
	nameAddress, buildAddress         uint64
}

const (
	request = 3<<30 | unsafe.Sizeof(query{})<<16 | 'f'<<8 | 17 // _IOWR('f', 17, struct procmap_query)

	readable       = 0x1
	writable       = 0x2
	coveringOrNext = 0x10
)

// Maps are the mappings of this process. Its methods may be called from any goroutine.
type Maps struct {
	file *os.File
	conn syscall.RawConn
}

// Open opens the mappings of this process. It fails if /proc is not mounted.
func Open() (*Maps, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Maps{f, conn}, nil
}

// Close closes the mappings.
func (m *Maps) Close() error { return m.file.Close() }

// Query returns the mapping that has an address, or else the next one above it.
//
// Errors: unix.ENOENT if there is no mapping there or above, unix.ENOTTY if the kernel does not know the request, and others after Close.
func (m *Maps) Query(address uint64) (found Mapping, err error) {
	q := query{address: address, flags: coveringOrNext}
	if err := m.ask(&q); err != nil {
		return found, err
	}
	found = Mapping{Low: q.low, High: q.high, Readable: q.vmaFlags&readable != 0, Writable: q.vmaFlags&writable != 0}
	if q.inode == 0 {
		return found, nil
	}
	name := new([unix.PathMax]byte)
	var pin runtime.Pinner // the kernel gets its address as a number
	pin.Pin(name)
	defer pin.Unpin()
	q = query{address: found.Low, nameSize: unix.PathMax, nameAddress: uint64(uintptr(unsafe.Pointer(name)))}
	if err := m.ask(&q); err != nil {
		return found, err
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	found.Name = string(text)
	return found, nil
}

func (m *Maps) ask(q *query) error {
	q.size = uint64(unsafe.Sizeof(*q))
	var errno unix.Errno
	err := m.conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(q)))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}
