package provider

import (
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// AdapterInOrderDMA: the last byte of a message becomes visible last (PROTOCOL §9.1). In this test the last byte lies in a page
// without write permission, so that storing it faults. By then all earlier bytes must be stored, however the machine copies memory.
func TestLastByteIsStoredLast(t *testing.T) {
	for name, begin := range map[string]func(p *pair, off, n uint32){
		"write": func(p *pair, off, n uint32) {
			w := p.write(0, 0, n)
			w.Addr = p.reg[1].Base() + uint64(off)
			p.post(0, w)
		},
		"send": func(p *pair, off, n uint32) {
			p.receive(1, off, n)
			p.post(0, p.send(0, n))
		},
		"read": func(p *pair, off, n uint32) {
			p.post(1, &listed{SGL: p.sge(1, off, n), Request: Request{Kind: KindRead, Length: n, Addr: p.reg[0].Base(), Token: p.reg[0].Token()}})
		},
	} {
		for _, n := range []uint32{2, 8, 16, 33, 100, 1000, 5000} {
			if got := storedBeforeLast(t, n, begin); got != n-1 {
				t.Errorf("%s of %d bytes: %d were there before the last, want %d", name, n, got, n-1)
			}
		}
	}
}

// storedBeforeLast returns how many bytes of a message are stored when the store of its last byte faults.
func storedBeforeLast(t *testing.T, n uint32, begin func(p *pair, off, n uint32)) (stored uint32) {
	page := unix.Getpagesize()
	const room = 4 // pages
	mem, err := unix.Mmap(-1, 0, room*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t, 1408).connect()
	defer func() { // the engine stopped in the middle of a poll, and is not used again
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	if p.reg[1], err = p.mem[1].Register(mem, RightRemoteRead|RightRemoteWrite); err != nil {
		t.Fatal(err)
	}
	p.fill(0, 0, n, 7)
	last := (room - 1) * page
	off := uint32(last) - (n - 1)
	begin(p, off, n)
	if err := unix.Mprotect(mem[last:], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	func() {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if recover() == nil {
				t.Error("the last byte was never stored")
			}
		}()
		p.runUntilIdle()
	}()
	for ; stored < n-1 && mem[off+stored] == 7; stored++ {
	}
	return stored
}
