package xdp

import (
	"structs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PacketContinues in Desc.Options says that the packet goes on in the next descriptor (XDP_PKT_CONTD).
const PacketContinues = unix.XDP_PKT_CONTD

// Desc is the kernel's struct xdp_desc: Len bytes at UMEM address Addr.
type Desc struct {
	_       structs.HostLayout
	Addr    uint64
	Len     uint32
	Options uint32
}

// Slot is what rings carry: descriptors (rx, tx) or UMEM addresses (fill, completion).
type Slot interface{ Desc | uint64 }

// RingMemory is one ring as both sides see it: the slots, a power of two of them, and two words. Indices run freely
// through all 32 bits and wrap; the slot of index i is i modulo the number of slots.
type RingMemory[T Slot] struct {
	Slots    []T
	Producer *atomic.Uint32 // written by the producing side only
	Consumer *atomic.Uint32 // written by the consuming side only
}

// NewRingMemory makes a ring in ordinary memory, for tests, whose indices start at origin (to test wrap-around).
func NewRingMemory[T Slot](slots int, origin uint32) RingMemory[T] {
	m := RingMemory[T]{
		Slots:    make([]T, slots),
		Producer: new(atomic.Uint32),
		Consumer: new(atomic.Uint32),
	}
	m.Producer.Store(origin)
	m.Consumer.Store(origin)
	return m
}

// Producer is the writing end of a ring. It has one owner.
type Producer[T Slot] struct {
	mem  RingMemory[T]
	mask uint32
	next uint32 // our index, as last published
	peer uint32 // the consumer's index, as last loaded
}

// NewProducer takes the writing end of m where its indices stand now.
func NewProducer[T Slot](m RingMemory[T]) Producer[T] {
	return Producer[T]{mem: m, mask: uint32(len(m.Slots)) - 1, next: m.Producer.Load(), peer: m.Consumer.Load()}
}

// Reserve says how many slots, up to want, can be written now. The consumer's index is loaded only when the copy of it
// does not suffice.
func (p *Producer[T]) Reserve(want uint32) uint32 {
	size := uint32(len(p.mem.Slots))
	free := size - (p.next - p.peer)
	if free < want {
		p.peer = p.mem.Consumer.Load() // acquire: the consumer has finished reading the slots below this index
		free = size - (p.next - p.peer)
	}
	return min(free, want)
}

// Set writes slot i of the reservation. The consumer cannot see it before Submit.
func (p *Producer[T]) Set(i uint32, v T) {
	p.mem.Slots[(p.next+i)&p.mask] = v
}

// Submit publishes the first n slots of the reservation, with one store. Slots set beyond n stay invisible.
func (p *Producer[T]) Submit(n uint32) {
	if n == 0 {
		return
	}
	p.next += n
	p.mem.Producer.Store(p.next) // release: the slots below this index are written
}

// Outstanding says how many published slots the consumer has not taken, as of now.
func (p *Producer[T]) Outstanding() uint32 {
	p.peer = p.mem.Consumer.Load()
	return p.next - p.peer
}

// Consumer is the reading end of a ring. It has one owner.
type Consumer[T Slot] struct {
	mem  RingMemory[T]
	mask uint32
	next uint32 // our index, as last published
	peer uint32 // the producer's index, as last loaded
}

// NewConsumer takes the reading end of m where its indices stand now.
func NewConsumer[T Slot](m RingMemory[T]) Consumer[T] {
	return Consumer[T]{mem: m, mask: uint32(len(m.Slots)) - 1, next: m.Consumer.Load(), peer: m.Producer.Load()}
}

// Peek says how many slots, up to want, can be read now. The producer's index is loaded only when everything below the
// copy of it has been read.
func (c *Consumer[T]) Peek(want uint32) uint32 {
	if c.peer == c.next {
		c.peer = c.mem.Producer.Load() // acquire: the slots below this index are written
	}
	return min(c.peer-c.next, want)
}

// Reload is Peek that always loads the producer's index.
func (c *Consumer[T]) Reload(want uint32) uint32 {
	c.peer = c.mem.Producer.Load() // acquire, as in Peek
	return min(c.peer-c.next, want)
}

// waiting reports whether there are slots that nobody has read, by the shared words alone: anyone may ask.
func (c *Consumer[T]) waiting() bool { return c.mem.Producer.Load() != c.mem.Consumer.Load() }

// Get reads slot i of what Peek counted.
func (c *Consumer[T]) Get(i uint32) T {
	return c.mem.Slots[(c.next+i)&c.mask]
}

// Release hands the first n slots back to the producer, with one store.
func (c *Consumer[T]) Release(n uint32) {
	if n == 0 {
		return
	}
	c.next += n
	c.mem.Consumer.Store(c.next) // release: the slots below this index have been read
}
