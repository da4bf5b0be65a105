// Package rxring reads the ring into which the program nd_ring (package bpf) copies the packets of one UDP socket.
package rxring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of a BPF ring buffer (Linux, kernel/bpf/ringbuf.c): one page with the consumer's position, which this process writes;
// one page with the producer's position; then the data. The data are mapped twice in a row, so that every record is contiguous.
const (
	headerLen  = 8
	busy       = 1 << 31 // in a record's length: the record is not complete yet
	discarded  = 1 << 30 // in a record's length: the record is empty
	arrivalLen = 40      // struct nd_arrival
	stampAt    = 30      // offset of passed in struct nd_arrival
	bulkPortAt = 4       // offsets in struct nd_page
	passedAt   = 64
	bulkAt     = 128
)

// Packet is a received packet: its UDP payload and its source.
type Packet struct {
	Data    []byte // in the ring; valid until Release
	IP      [16]byte
	Port    uint16
	MAC     [6]byte // link-layer source address
	Marked  bool    // it has a congestion mark (CE)
	Arrived uint64  // arrival time: CLOCK_MONOTONIC in nanoseconds
}

// Ring is the consumer of a ring. Any goroutine may call Sleeps, Passed and Waiting until Close. One goroutine at a time may call
// the other methods. The process that supplied the ring can only cause packet loss: if a Ring finds data that the kernel never
// writes, it treats the ring as empty.
type Ring struct {
	consumer, producer []byte // mappings
	shared             []byte // the page shared with the BPF program
	data               []byte // part of producer
	mask               uint64
	at                 uint64      // position of the consumer
	edge               uint64      // producer's position at the last Edge, at most the length of data beyond at
	behind             uint16      // Next stops before records with a larger stamp
	damaged            atomic.Bool // invalid data was found, so nothing more is read
}

// Open maps a ring of the given size and its shared page. The caller keeps ownership of the descriptors, and may close them
// afterwards.
func Open(ring, shared, bytes int) (_ *Ring, err error) {
	r, page := &Ring{mask: uint64(bytes) - 1}, os.Getpagesize()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("map a ring of %d bytes: %w", bytes, err), r.Close())
		}
	}()
	if bytes < page || bytes&(bytes-1) != 0 {
		return nil, fmt.Errorf("the size must be a power of two, at least %d", page)
	}
	if r.consumer, err = unix.Mmap(ring, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	if r.producer, err = unix.Mmap(ring, int64(page), page+2*bytes, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	if r.shared, err = unix.Mmap(shared, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	r.data = r.producer[page:]
	r.at = word64(r.consumer, 0).Load()
	if r.at%8 != 0 { // a header that is not aligned may end behind the data
		return nil, fmt.Errorf("the consumer position of the ring is %d, which is no multiple of 8", r.at)
	}
	r.edge = r.at
	return r, nil
}

func word64(b []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[at])) }

func word32(b []byte, at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[at])) }

// Sleep is how packets wake this process (enum nd_sleep).
type Sleep uint32

// Values of Sleep.
const (
	Awake    Sleep = iota // a goroutine polls the ring
	AtSocket              // a goroutine sleeps on the socket, which receives all packets
	AtRing                // a goroutine sleeps on the ring, which continues to receive packets
)

// Sleeps sets how packets wake this process. A goroutine that is about to sleep calls it first and then checks Waiting.
func (r *Ring) Sleeps(now Sleep) {
	word32(r.shared, 0).Swap(uint32(now)) // includes a full barrier: see nd_put
}

// Passed returns the number of packets that went to the socket instead of the ring, over the lifetime of the ring. It wraps.
func (r *Ring) Passed() uint64 { return word64(r.shared, passedAt).Load() }

// CountBulk makes the program count the packets to another port of the same address. It is called once, before they come.
func (r *Ring) CountBulk(port uint16) { binary.BigEndian.PutUint16(r.shared[bulkPortAt:], port) }

// Bulk returns the number of packets counted because of CountBulk. Each is counted before it reaches its socket. The number wraps.
func (r *Ring) Bulk() uint64 { return word64(r.shared, bulkAt).Load() }

// Waiting reports whether the ring has a record: complete, being written, or read but not released.
func (r *Ring) Waiting() bool {
	return word64(r.producer, 0).Load() != word64(r.consumer, 0).Load() && !r.damaged.Load()
}

// Unread reports whether the ring has a record, complete or being written, that Next has not returned.
func (r *Ring) Unread() bool { return word64(r.producer, 0).Load() != r.at && !r.damaged.Load() }

// Edge makes Next stop before records that the kernel begins later.
func (r *Ring) Edge() {
	edge := word64(r.producer, 0).Load()
	if r.damaged.Load() || edge-r.at > r.mask+1 {
		r.abandon()
		return
	}
	r.edge = edge
}

// Behind makes Next stop before packets that arrived after more than passed packets of the socket, as counted by Passed.
func (r *Ring) Behind(passed uint64) { r.behind = uint16(passed) }

// Ahead returns how many packets of the socket arrived before the next packet of the ring, beyond the number given to Behind. It
// returns most if this is unknown, because there is no packet before the edge or it is not complete.
func (r *Ring) Ahead(most int) int {
	if off := r.at & r.mask; r.at != r.edge {
		n := word32(r.data, int(off)).Load()
		if n&(busy|discarded) == 0 && n >= arrivalLen {
			return min(max(int(int16(stamp(r.data[off+headerLen:][:arrivalLen])-r.behind)), 0), most)
		}
	}
	return most
}

// abandon stops reading a ring with invalid data.
func (r *Ring) abandon() {
	r.edge = r.at
	r.damaged.Store(true)
}

// Next reads the next packet. It returns false if there is none, or if it is still being written.
func (r *Ring) Next(p *Packet) bool {
	for r.at != r.edge {
		off := r.at & r.mask
		n := word32(r.data, int(off)).Load()
		if n&busy != 0 {
			return false
		}
		size, skip := uint64(n&^discarded), n&discarded != 0
		step := (size + headerLen + 7) &^ 7
		if step > r.edge-r.at || !skip && size < arrivalLen {
			r.abandon()
			return false
		}
		record := r.data[off+headerLen:][:size]
		if !skip && int16(stamp(record)-r.behind) > 0 {
			return false
		}
		if !skip && !p.read(record) {
			r.abandon()
			return false
		}
		r.at += step
		if !skip {
			return true
		}
	}
	return false
}

// stamp returns the number of packets that went to the socket before the packet of a record.
func stamp(record []byte) uint16 { return binary.NativeEndian.Uint16(record[stampAt:]) }

// read decodes a struct nd_arrival and its payload. It returns false if the record is too short.
func (p *Packet) read(record []byte) bool {
	length := word32(record, 20).Load() // read once, because the owner of the ring may change it
	if uint64(length) > uint64(len(record)-arrivalLen) {
		return false
	}
	copy(p.IP[:], record)
	p.Port = uint16(record[16])<<8 | uint16(record[17])
	p.Marked = word32(record, 16).Load()>>16 != 0
	copy(p.MAC[:], record[24:])
	p.Arrived = binary.NativeEndian.Uint64(record[32:])
	p.Data = record[arrivalLen:][:length:length]
	return true
}

// Release frees the ring space of all packets that Next returned.
func (r *Ring) Release() { word64(r.consumer, 0).Store(r.at) }

// Close unmaps the ring. Only Close may be called afterwards, and packets are invalid. Further calls have no effect.
func (r *Ring) Close() (err error) {
	r.data = nil // part of producer
	for _, m := range []*[]byte{&r.consumer, &r.producer, &r.shared} {
		if *m != nil {
			err = errors.Join(err, unix.Munmap(*m))
			*m = nil
		}
	}
	return err
}
