package ndnet

import (
	"reflect"
	"slices"
	"sync"

	"github.com/ndxdp/ndxdp/nd"
)

// directMin is the length from which a Write of registered memory sends without a copy. It has to wait for the peer's acknowledgement,
// which costs more than copying fewer bytes.
const directMin = 32 << 10

// Buffer is registered memory. A Write of 32 KiB or more from a Buffer is sent without a copy into the send buffer, and returns when the
// peer's host has acknowledged it. With memory from AllocateBuffer, the device itself may read it.
type Buffer struct {
	network *Network
	region  *nd.MemoryRegion
	at      uintptr // address of the first byte
}

// buffers are the buffers of a network, sorted by address. Buffers of the same address are interchangeable.
type buffers struct {
	mu  sync.RWMutex
	all []*Buffer
}

// AllocateBuffer makes a buffer of size zeroed bytes by nd.Adapter.AllocateMemory. The memory must not be used after Close.
func (n *Network) AllocateBuffer(size int) (*Buffer, error) {
	r, err := n.adapter.AllocateMemory(size, 0)
	return n.buffer(r, err)
}

// RegisterBuffer makes a buffer of the caller's memory. Registration takes a few microseconds, or about 50 µs before Linux 6.11. It fails as nd.MemoryRegion.Register does.
func (n *Network) RegisterBuffer(p []byte) (*Buffer, error) {
	r, err := n.adapter.RegisterMemory(p, 0)
	return n.buffer(r, err)
}

func (n *Network) buffer(r *nd.MemoryRegion, err error) (*Buffer, error) {
	if err != nil {
		return nil, meaning(err)
	}
	b := &Buffer{n, r, reflect.ValueOf(r.Bytes()).Pointer()}
	l := &n.buffers
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := l.find(b.at)
	l.all = slices.Insert(l.all, i, b)
	return b, nil
}

// find returns the index of the buffer at an address, or where it would be inserted.
func (l *buffers) find(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(l.all, at, func(b *Buffer, at uintptr) int {
		switch {
		case b.at < at:
			return -1
		case b.at > at:
			return 1
		}
		return 0
	})
}

// holding returns a registration that contains p, or nil.
func (l *buffers) holding(p []byte) *nd.MemoryRegion {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.all) == 0 {
		return nil
	}
	at := reflect.ValueOf(p).Pointer()
	i, there := l.find(at)
	if !there {
		i--
	}
	if i < 0 {
		return nil
	}
	b := l.all[i]
	if at-b.at > uintptr(len(b.region.Bytes())) || uintptr(len(b.region.Bytes()))-(at-b.at) < uintptr(len(p)) {
		return nil
	}
	return b.region
}

// Bytes returns the memory.
func (b *Buffer) Bytes() []byte { return b.region.Bytes() }

// Close ends the registration. No Write of the memory may be in progress. Closing twice is harmless.
func (b *Buffer) Close() error {
	l := &b.network.buffers
	l.mu.Lock()
	l.all = slices.DeleteFunc(l.all, func(other *Buffer) bool { return other == b })
	l.mu.Unlock()
	return b.region.Close()
}

// writeDirect is Write for registered memory. It always waits for bytes in flight, even after a deadline, because the caller may change
// them once it returns. Only the transport can delay that. The caller holds mu and writing.
func (c *Conn) writeDirect(p []byte, region *nd.MemoryRegion) (int, error) {
	s := &c.send
	posted, before := 0, s.pass
	var err error
	for err == nil && posted < len(p) {
		s.direct = len(p) - posted
		if err = c.writable(); err != nil {
			break
		}
		if n := c.roomForDirect(len(p) - posted); n > 0 {
			addr, n := c.place(n)
			c.writePiece(append(s.list[:0], nd.SGE{Buffer: p[posted:][:n:n], Token: region.LocalToken()}), addr, n)
			posted += n
			s.direct = len(p) - posted
			c.message(nil, nil, true)
			c.last().bytes = uint32(n)
			continue
		}
		c.flush()
		c.await(true)
	}
	s.direct = 0
	for s.pass-before < posted && c.failed == nil {
		c.await(true)
	}
	if err == nil && s.pass-before < len(p) {
		err = c.failed
	}
	return s.pass - before, err
}

// roomForDirect returns how many of n bytes can be written now: only if everything before them was written, and the peer's ring has room.
func (c *Conn) roomForDirect(n int) int {
	if c.send.ring.waiting() > 0 || !c.mayData(0) {
		return 0
	}
	if n = c.fits(n); !c.out.direct() {
		return 0
	}
	return n
}
