package capture

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
)

// ring is the tap of one engine: the engine's owner writes, and the reader of the Feed reads. Nothing allocates or blocks.
type ring struct {
	feed  *Feed
	queue int
	slots []slot // a power of two
	bytes []byte // a power of two; ring of packet bytes

	// Written by the engine's owner.
	tail   atomic.Uint64 // total number of slots filled
	end    uint64        // total number of bytes filled
	missed atomic.Uint64 // packets that did not fit

	_ [64]byte // keeps the fields of the two sides on different cache lines

	// Written by the reader.
	head  atomic.Uint64 // total number of slots freed
	begin atomic.Uint64 // total number of bytes freed
}

// slot is a packet without its bytes, of which kept are in the ring from at on.
type slot struct {
	packet provider.TapPacket // without Pieces
	at     uint64
	kept   int
}

// Packet implements provider.Tap.
func (r *ring) Packet(p *provider.TapPacket) {
	tail, kept := r.tail.Load(), min(p.Len, r.feed.snap)
	if tail-r.head.Load() == uint64(len(r.slots)) || r.end-r.begin.Load()+uint64(kept) > uint64(len(r.bytes)) {
		r.missed.Add(1)
		return
	}
	s := &r.slots[tail&uint64(len(r.slots)-1)]
	s.packet, s.at, s.kept = *p, r.end, kept
	s.packet.Pieces = nil
	left := kept
	for i := range p.Pieces {
		b := p.Pieces[i].Data
		b = b[:min(len(b), left)]
		left -= len(b)
		r.put(b)
	}
	s.kept -= left // does not happen unless the packet has fewer bytes than its length
	r.tail.Store(tail + 1)
	r.feed.alert()
}

// put copies b to the end of the ring, which must have room.
func (r *ring) put(b []byte) {
	at := int(r.end & uint64(len(r.bytes)-1))
	n := copy(r.bytes[at:], b)
	copy(r.bytes, b[n:])
	r.end += uint64(len(b))
}

// peek returns the oldest packet, or nil.
func (r *ring) peek() *slot {
	head := r.head.Load()
	if head == r.tail.Load() {
		return nil
	}
	return &r.slots[head&uint64(len(r.slots)-1)]
}

// appendBytes appends the captured bytes of packet s to dst.
func (r *ring) appendBytes(dst []byte, s *slot) []byte {
	at := int(s.at & uint64(len(r.bytes)-1))
	n := min(s.kept, len(r.bytes)-at)
	dst = append(dst, r.bytes[at:at+n]...)
	return append(dst, r.bytes[:s.kept-n]...)
}

// pop frees the packet that peek returned.
func (r *ring) pop(s *slot) {
	r.begin.Store(s.at + uint64(s.kept))
	r.head.Store(r.head.Load() + 1)
}
