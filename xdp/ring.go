package xdp

import (
	"structs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PacketContinues in Desc.Options means that the packet continues in the next descriptor (XDP_PKT_CONTD).
const PacketContinues = unix.XDP_PKT_CONTD

// Desc is the kernel's struct xdp_desc: Len bytes at UMEM address Addr.
type Desc struct {
	_       structs.HostLayout
	Addr    uint64
	Len     uint32
	Options uint32
}

// Slot is the element of a ring: a descriptor (rx, tx) or a UMEM address (fill, completion).
type Slot interface{ Desc | uint64 }

// RingMemory is the shared memory of a ring: slots, whose number is a power of two, and two indices. Indices use all 32 bits and
// wrap. Index i belongs to the slot i modulo the number of slots.
type RingMemory[T Slot] struct {
	Slots    []T
	Producer *atomic.Uint32 // written only by the producer
	Consumer *atomic.Uint32 // written only by the consumer
}

// NewRingMemory makes a ring in ordinary memory, for tests. Its indices start at origin, to test wrap-around.
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

// NewProducer returns the writing end of m, at its current indices.
func NewProducer[T Slot](m RingMemory[T]) Producer[T] {
	return Producer[T]{mem: m, mask: uint32(len(m.Slots)) - 1, next: m.Producer.Load(), peer: m.Consumer.Load()}
}

// Reserve returns how many slots, up to want, can be written now. It loads the consumer's index only if the cached one does not
// suffice.
func (p *Producer[T]) Reserve(want uint32) uint32 {
	size := uint32(len(p.mem.Slots))
	free := size - (p.next - p.peer)
	if free < want {
		p.peer = p.mem.Consumer.Load() // acquire: the consumer has read the slots below this index
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

// Outstanding returns how many published slots the consumer has not read yet.
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

// NewConsumer returns the reading end of m, at its current indices.
func NewConsumer[T Slot](m RingMemory[T]) Consumer[T] {
	return Consumer[T]{mem: m, mask: uint32(len(m.Slots)) - 1, next: m.Consumer.Load(), peer: m.Producer.Load()}
}

// Peek returns how many slots, up to want, can be read now. It loads the producer's index only if all slots below the cached one
// were read.
func (c *Consumer[T]) Peek(want uint32) uint32 {
	if c.peer == c.next {
		c.peer = c.mem.Producer.Load() // acquire: the slots below this index are written
	}
	return min(c.peer-c.next, want)
}

// Reload is Peek, but it always loads the producer's index.
func (c *Consumer[T]) Reload(want uint32) uint32 {
	c.peer = c.mem.Producer.Load() // acquire, as in Peek
	return min(c.peer-c.next, want)
}

// waiting reports whether there are unread slots. It uses only the shared indices, so any goroutine may call it.
func (c *Consumer[T]) waiting() bool { return c.mem.Producer.Load() != c.mem.Consumer.Load() }

// Get returns slot i of the slots that Peek counted.
func (c *Consumer[T]) Get(i uint32) T {
	return c.mem.Slots[(c.next+i)&c.mask]
}

// Release returns the first n slots to the producer, with one store.
func (c *Consumer[T]) Release(n uint32) {
	if n == 0 {
		return
	}
	c.next += n
	c.mem.Consumer.Store(c.next) // release: the slots below this index have been read
}
