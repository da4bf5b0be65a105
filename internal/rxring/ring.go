// Package rxring reads the ring that the program nd_ring (package bpf) fills with packets for one UDP socket.
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

// The layout of a BPF ring buffer (Linux, kernel/bpf/ringbuf.c): a page with the consumer's position, which this process writes; a page
// with the producer's position; the data, mapped twice in a row, so that no record has a gap.
const (
	headerLen  = 8
	busy       = 1 << 31 // in the length of a record: it is not complete yet
	discarded  = 1 << 30 // there is nothing in it
	arrivalLen = 40      // struct nd_arrival
	stampAt    = 30      // in struct nd_arrival: passed
	passedAt   = 64      // in struct nd_page
)

// Packet is one that arrived: its UDP payload and who sent it.
type Packet struct {
	Data    []byte // in the ring, until Release
	IP      [16]byte
	Port    uint16
	MAC     [6]byte // source address of the link layer
	Marked  bool    // it carries a congestion mark (CE)
	Arrived uint64  // CLOCK_MONOTONIC then, in nanoseconds
}

// Ring is a consumer. Sleeps, Passed and Waiting may be called by any goroutine until Close. The other methods belong to one goroutine at a
// time. Wrong data of the process that supplied the ring costs packets and nothing else: if a Ring finds data that the kernel never writes,
// it treats the ring as empty.
type Ring struct {
	consumer, producer []byte // mappings
	shared             []byte // the page beside the ring
	data               []byte // of producer
	mask               uint64
	at                 uint64      // consumed so far
	edge               uint64      // as far as Edge saw, at most the data ahead of at
	behind             uint16      // Next ends before records with a greater stamp
	damaged            atomic.Bool // something in it cannot be: nothing more is read
}

// Open maps a ring of so many bytes and its page. The descriptors stay the caller's, and need not stay open.
func Open(ring, shared, bytes int) (_ *Ring, err error) {
	r, page := &Ring{mask: uint64(bytes) - 1}, os.Getpagesize()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("map a ring of %d bytes: %w", bytes, err), r.Close())
		}
	}()
	if bytes < page || bytes&(bytes-1) != 0 {
		return nil, fmt.Errorf("that is no power of two from %d on", page)
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
	if r.at%8 != 0 { // where no record begins: a header there may end behind the data
		return nil, fmt.Errorf("its consumer is at %d, which is no multiple of 8", r.at)
	}
	r.edge = r.at
	return r, nil
}

func word64(b []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[at])) }

func word32(b []byte, at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[at])) }

// Sleep says who looks for packets (enum nd_sleep).
type Sleep uint32

// The values of Sleep.
const (
	Awake    Sleep = iota // somebody looks at the ring
	AtSocket              // somebody sleeps at the socket, which gets all packets and wakes him
	AtRing                // somebody sleeps at the ring, which goes on to get packets, and wakes him
)

// Sleeps says who polls for packets from now on. A goroutine that is about to sleep calls it first, and then checks Waiting.
func (r *Ring) Sleeps(now Sleep) {
	word32(r.shared, 0).Swap(uint32(now)) // with a full barrier behind it: see nd_put
}

// Passed counts the packets for the socket that went there and not into the ring, since the ring was made. It wraps.
func (r *Ring) Passed() uint64 { return word64(r.shared, passedAt).Load() }

// Waiting reports whether there is a record, one is being written, or one was read and not released yet.
func (r *Ring) Waiting() bool {
	return word64(r.producer, 0).Load() != word64(r.consumer, 0).Load() && !r.damaged.Load()
}

// Unread reports whether there is a record behind the records that Next returned, or one is being written.
func (r *Ring) Unread() bool { return word64(r.producer, 0).Load() != r.at && !r.damaged.Load() }

// Edge has Next end before records that were begun later.
func (r *Ring) Edge() {
	edge := word64(r.producer, 0).Load()
	if r.damaged.Load() || edge-r.at > r.mask+1 {
		r.abandon()
		return
	}
	r.edge = edge
}

// Behind has Next end before packets that came behind more than so many packets of the socket, as Passed counts them.
func (r *Ring) Behind(passed uint64) { r.behind = uint16(passed) }

// Ahead returns how many packets of the socket come before the next one of the ring, in addition to the packets that Behind was told of. It is
// most if that is unknown, because there is no packet before the edge, or it is not complete.
func (r *Ring) Ahead(most int) int {
	if off := r.at & r.mask; r.at != r.edge {
		n := word32(r.data, int(off)).Load()
		if n&(busy|discarded) == 0 && n >= arrivalLen {
			return min(max(int(int16(stamp(r.data[off+headerLen:][:arrivalLen])-r.behind)), 0), most)
		}
	}
	return most
}

// abandon ends a ring in which something cannot be.
func (r *Ring) abandon() {
	r.edge = r.at
	r.damaged.Store(true)
}

// Next reads the next packet. It reports false when there is none, or when it is still being written.
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

// stamp returns how many packets went to the socket before that of a record.
func stamp(record []byte) uint16 { return binary.NativeEndian.Uint16(record[stampAt:]) }

// read takes a struct nd_arrival and its payload from a record. It reports false when the record has not as many bytes.
func (p *Packet) read(record []byte) bool {
	length := word32(record, 20).Load() // once: who has the ring may change it
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

// Release gives the room of all packets that Next returned back to the kernel.
func (r *Ring) Release() { word64(r.consumer, 0).Store(r.at) }

// Close unmaps everything. Nobody may touch a packet or call anything but Close any more. Closing twice is harmless.
func (r *Ring) Close() (err error) {
	r.data = nil // in producer
	for _, m := range []*[]byte{&r.consumer, &r.producer, &r.shared} {
		if *m != nil {
			err = errors.Join(err, unix.Munmap(*m))
			*m = nil
		}
	}
	return err
}
