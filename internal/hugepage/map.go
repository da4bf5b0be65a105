// Package hugepage maps memory that the kernel can provide in huge pages.
package hugepage

import (
	"fmt"
	"reflect"

	"golang.org/x/sys/unix"
)

// Size is the number of bytes that the kernel provides with one page fault, on amd64, and on arm64 with pages of 4 KiB. In 4 KiB pages
// the same memory takes 512 faults.
const Size = 2 << 20

// Map returns n zeroed bytes that begin at a multiple of Size. Memory that is never touched costs nothing. free returns the memory to the
// kernel, and the memory must not be touched afterwards.
func Map(n int) (mem []byte, free func() error, err error) {
	all, err := unix.Mmap(-1, 0, n+Size-1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	off := int(-reflect.ValueOf(all).Pointer() & (Size - 1))
	mem = all[off : off+n : off+n]
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a kernel without huge pages refuses this, and provides ordinary pages
	return mem, func() error { return unix.Munmap(all) }, nil
}
