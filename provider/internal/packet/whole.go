package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// stageSize is the size of the largest GSO batch that a kernel takes, and so of the largest packet.
	stageSize = 64 << 10
	// copyBelow: a shorter segment is copied behind its header, because this costs less than another fragment for the kernel. A GSO
	// batch of 44 packets at MTU 1500 takes 12.1 µs contiguous and 13.5 µs scattered; a batch of 7 packets of 8.9 KB takes 10.4 and
	// 9.5 µs.
	copyBelow = 4 << 10
)

// stage is memory for the packets of a batch that have whole segments. They lie one behind the other, so that a GSO batch is
// contiguous. Long segments leave only their header here. The memory is allocated with the first packet.
type stage struct {
	buf  []byte
	used int
}

// Wholes describes packets that each carry one whole segment of a message and leave in GSO batches, by a link that has read them
// when Transmit returns.
type Wholes struct {
	Path   link.Path
	ECN    wire.ECN
	Bulk   bool            // they leave by the bulk path
	Copy   bool            // the payload may change before the kernel has read it
	Fields wire.BaseFields // header fields of the next packet
	Keys   *secure.Sealer  // of an encrypted connection, else nil
}

// RoomFor reports whether the batch has room for a packet with a segment of n bytes. Otherwise the batch must be flushed first.
func (o *Out) RoomFor(w *Wholes, n int) bool {
	return o.stage.used+wire.BaseHeaderLen+w.staged(n) <= stageSize
}

// staged returns how many bytes of a segment are copied, or encrypted with their tag.
func (w *Wholes) staged(n int) int {
	if w.Keys != nil {
		return n + wire.TagLen
	}
	if w.Copy || n < copyBelow {
		return n
	}
	return 0
}

// Whole builds a packet of one whole segment: Begin, Payload and Seal in one step, without a frame. Add then puts it into the
// batch.
func (o *Out) Whole(w *Wholes, piece []byte) *link.TxPacket {
	s := &o.stage
	if s.buf == nil {
		s.buf = make([]byte, stageSize)
	}
	copied := w.staged(len(piece))
	first := s.buf[s.used:][:wire.BaseHeaderLen+copied]
	s.used += len(first)
	p := &o.batch[o.n]
	p.Path, p.ECN, p.Joins, p.Bulk, p.Segment = w.Path, w.ECN, true, w.Bulk, 0
	p.Frags[0] = link.Frag{Data: first, ID: link.Lent}
	o.tag = 0
	if w.Keys != nil {
		seal(w.Keys, first, piece, &w.Fields)
		p.N, p.Len, o.used = 1, len(first), len(first)
		return p
	}
	p.N, p.Len = 1, wire.BaseHeaderLen+len(piece)
	wire.PutBaseHeader(first, &w.Fields)
	copy(first[wire.BaseHeaderLen:], piece[:copied])
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
