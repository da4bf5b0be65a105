package udp

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident counts the frames whose pages are resident.
func (p *Pool) resident(t *testing.T) (n int) {
	t.Helper()
	pages := make([]byte, len(p.mem)/PageSize)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p.mem[0])), uintptr(len(p.mem)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, page := range pages {
		n += int(page & 1)
	}
	return n
}

// The memory of a burst is released to the kernel, except the frames to keep and those in use. Frames in use keep their contents.
func TestPoolIsTrimmed(t *testing.T) {
	const all, burst, keep = 100, 60, 10
	p, err := NewPool(all, PageSize)
	must(t, err)
	defer func() { must(t, p.Close()) }()
	var taken []uint32
	for range burst {
		id, ok := p.Get()
		if !ok {
			t.Fatal("the pool is dry")
		}
		p.Frame(id)[0] = byte(id)
		taken = append(taken, id)
	}
	used := taken[:7]
	for _, id := range taken[len(used):] {
		p.Put(id)
	}
	for range 2 { // the second time there is nothing to release
		must(t, p.Trim(keep))
		if got := p.resident(t); got != len(used)+keep {
			t.Errorf("%d frames are resident, want %d in use and %d kept", got, len(used), keep)
		}
	}
	for _, id := range used {
		if p.Frame(id)[0] != byte(id) {
			t.Errorf("frame %d lost its bytes", id)
		}
		p.Put(id)
	}
	if got := p.Free(); got != all {
		t.Errorf("%d frames are free", got)
	}
	// The next frames are resident ones.
	for range len(used) + keep {
		p.Get()
	}
	if id, _ := p.Get(); p.Frame(id)[0] != 0 {
		t.Errorf("frame %d has bytes and was given back", id)
	}
}
