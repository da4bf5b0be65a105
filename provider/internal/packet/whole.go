package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// stageSize is the longest run that a kernel takes, and so the longest packet.
	stageSize = 64 << 10
	// copyBelow is the longest segment for which a copy behind its header costs less than a piece of memory of its own, which the kernel
	// has to look up. A GSO batch of 44 packets at MTU 1500 takes 12.1 µs contiguous and 13.5 µs scattered; a batch of 7 packets of 8.9 KB
	// takes 10.4 and 9.5 µs.
	copyBelow = 4 << 10
)

// stage stores packets with whole segments one behind the other until the batch is flushed, so that a GSO batch is contiguous: with their
// contents, or only headers. Nothing is allocated before the first packet.
type stage struct {
	buf  []byte
	used int
}

// Wholes is the common part of packets that each carry one whole segment of a message and leave in GSO batches, by a link that has read
// them when Transmit returns.
type Wholes struct {
	Path   link.Path
	ECN    wire.ECN
	Bulk   bool            // they leave by the bulk lane
	Copy   bool            // what they carry may change before the kernel has read it
	Fields wire.BaseFields // of the next one
}

// RoomFor says whether a packet with a segment of n bytes has room in the batch. Otherwise the batch has to be flushed first.
func (o *Out) RoomFor(w *Wholes, n int) bool {
	return o.stage.used+wire.BaseHeaderLen+w.staged(n) <= stageSize
}

// staged is how many bytes of a piece are copied.
func (w *Wholes) staged(n int) int {
	if w.Copy || n < copyBelow {
		return n
	}
	return 0
}

// Whole makes a packet of one piece: Begin, Payload and Seal in one step, without a frame. Add puts it into the batch.
func (o *Out) Whole(w *Wholes, piece []byte) *link.TxPacket {
	s := &o.stage
	if s.buf == nil {
		s.buf = make([]byte, stageSize)
	}
	copied := w.staged(len(piece))
	first := s.buf[s.used:][:wire.BaseHeaderLen+copied]
	s.used += len(first)
	wire.PutBaseHeader(first, &w.Fields)
	copy(first[wire.BaseHeaderLen:], piece[:copied])
	p := &o.batch[o.n]
	p.Path, p.ECN, p.Joins, p.Bulk = w.Path, w.ECN, true, w.Bulk
	p.N, p.Len = 1, wire.BaseHeaderLen+len(piece)
	p.Frags[0] = link.Frag{Data: first, ID: link.Lent}
	crc := wire.SumFirst(w.Fields.Number, w.Fields.Message, first)
	if copied < len(piece) {
		p.Frags[1] = link.Frag{Data: piece[:len(piece):len(piece)], ID: link.Lent}
		p.N = 2
		crc = wire.Sum(crc, piece)
	}
	wire.PutCRC(first, crc)
	o.used = p.Len
	return p
}
