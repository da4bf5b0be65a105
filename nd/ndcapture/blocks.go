package ndcapture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	blockHead = 8       // bytes of a block's type and length
	blockTail = 4       // bytes of the length at the end
	maxBlock  = 1 << 24 // bytes; tools refuse larger blocks, too
	// packetFields is how many bytes of a packet block are in front of its frame.
	packetFields = blockHead + 5*4
)

// errOldFormat means that a capture has another format, most often pcap.
var errOldFormat = errors.New("ndcapture: the capture is no pcapng file: convert it with editcap -F pcapng")

// byteOrderOf is the order of bytes of a section, which is the order of the machine that wrote it.
type byteOrderOf interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// reader reads the blocks of a pcapng file.
type reader struct {
	from  *bufio.Reader
	order byteOrderOf // of the section at hand
	links []uint16    // link types of the interfaces of the section
	block []byte      // the block at hand
}

// next reads a block. It returns its type, or io.EOF at the end. block is valid until the next call.
func (r *reader) next() (kind uint32, err error) {
	head, err := r.from.Peek(blockHead + 4) // with the byte order of a section
	if err != nil {
		switch {
		case !errors.Is(err, io.EOF):
		case r.order == nil:
			err = errOldFormat
		case len(head) > 0:
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	if kind = binary.LittleEndian.Uint32(head); kind == sectionBlock { // this type is the same in both orders
		r.order, r.links = binary.LittleEndian, nil
		if binary.BigEndian.Uint32(head[blockHead:]) == byteOrder {
			r.order = binary.BigEndian
		}
	}
	if r.order == nil {
		return 0, errOldFormat
	}
	kind = r.order.Uint32(head)
	n := r.order.Uint32(head[4:])
	if n < blockHead+blockTail || n%4 != 0 || n > maxBlock {
		return 0, fmt.Errorf("ndcapture: the capture is damaged: a block of %d bytes", n)
	}
	if cap(r.block) < int(n) {
		r.block = make([]byte, n)
	}
	r.block = r.block[:n]
	if _, err := io.ReadFull(r.from, r.block); err != nil {
		return 0, err
	}
	if kind == interfaceBlock && n >= blockHead+4+blockTail {
		r.links = append(r.links, r.order.Uint16(r.block[blockHead:]))
	}
	return kind, nil
}

// frame returns the frame of the packet block, and the frame's length on the network. It fails if the interface is not Ethernet, and if
// the block is damaged.
func (r *reader) frame() (frame []byte, length int, ok bool) {
	if len(r.block) < packetFields+blockTail {
		return nil, 0, false
	}
	f := r.block[blockHead:]
	id, kept, whole := r.order.Uint32(f), r.order.Uint32(f[12:]), r.order.Uint32(f[16:])
	room := uint32(len(r.block) - packetFields - blockTail)
	if uint64(id) >= uint64(len(r.links)) || r.links[id] != linkEthernet || kept > room || whole < kept || whole > maxBlock {
		return nil, 0, false
	}
	return r.block[packetFields:][:kept], int(whole), true
}

// replace puts another frame into the packet block at hand, and adds a comment.
func (r *reader) replace(frame []byte, comment string) []byte {
	kept := int(r.order.Uint32(r.block[blockHead+12:]))
	options := r.block[packetFields+padTo4(kept) : len(r.block)-blockTail]
	b := append([]byte(nil), r.block[:packetFields]...)
	r.order.PutUint32(b[blockHead+12:], uint32(len(frame)))
	r.order.PutUint32(b[blockHead+16:], uint32(len(frame)))
	b = r.pad(append(b, frame...))
	b = append(b, options[:r.optionsEnd(options)]...)
	b = r.order.AppendUint16(b, optionComment)
	b = r.order.AppendUint16(b, uint16(len(comment)))
	b = r.pad(append(b, comment...))
	b = append(b, 0, 0, 0, 0) // end of the options
	b = r.order.AppendUint32(b, 0)
	n := uint32(len(b))
	r.order.PutUint32(b[4:], n)
	r.order.PutUint32(b[n-blockTail:], n)
	return b
}

// optionsEnd returns where the options of a block end, without the mark of their end.
func (r *reader) optionsEnd(options []byte) (at int) {
	for at+4 <= len(options) && r.order.Uint16(options[at:]) != 0 {
		next := at + 4 + padTo4(int(r.order.Uint16(options[at+2:])))
		if next > len(options) {
			break // damaged: it is left out
		}
		at = next
	}
	return at
}

func padTo4(n int) int { return (n + 3) &^ 3 }

// pad appends zeros to a multiple of 4.
func (r *reader) pad(b []byte) []byte { return append(b, make([]byte, padTo4(len(b))-len(b))...) }
