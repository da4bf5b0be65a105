package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// sealed is memory for building the packets of encrypted connections. A packet is built in plain, and its ciphertext is written to
// frames. So no memory that the kernel, the device or a broker can read ever holds plaintext.
type sealed struct {
	plain  [wire.MaxPacket]byte // the packet at hand: base header and contents
	cipher [wire.MaxPacket]byte // a packet that takes several frames, before it is copied there
}

// BeginSealed is Begin for a packet that Seal encrypts. The last wire.TagLen of its limit bytes are its tag. Its payload is neither lent
// nor sent by reference.
func (o *Out) BeginSealed(limit int, keys *secure.Sealer) bool {
	if !o.start(limit, wire.TagLen) {
		return false
	}
	if o.sealed == nil {
		o.sealed = new(sealed)
	}
	b := &o.builder
	b.keys = keys
	b.buf, b.start, b.pos = o.sealed.plain[:], 0, wire.BaseHeaderLen
	return true
}

// encrypt completes a packet that BeginSealed began.
func (o *Out) encrypt(path link.Path, ecn wire.ECN, fields *wire.BaseFields) *link.TxPacket {
	b := &o.builder
	p, size := b.pkt, b.Used()
	p.Path, p.ECN, p.Len = path, ecn, size
	contents := o.sealed.plain[wire.BaseHeaderLen:b.used]
	if size <= link.FrameSize-link.Headroom {
		o.addFrame(link.Headroom, size)
		seal(b.keys, p.Frags[0].Data, contents, fields)
		return p
	}
	cipher := o.sealed.cipher[:size]
	seal(b.keys, cipher, contents, fields)
	for start := link.Headroom; len(cipher) > 0; start = 0 {
		n := min(len(cipher), link.FrameSize-start)
		copy(o.addFrame(start, n), cipher)
		cipher = cipher[n:]
	}
	return p
}

// addFrame adds n bytes of another frame to the current packet, from offset start of the frame on, and returns them.
func (o *Out) addFrame(start, n int) []byte {
	p, last := o.pkt, len(o.cache)-1
	f := o.cache[last]
	o.cache = o.cache[:last]
	f.Data = f.Data[start:][:n:n]
	p.Frags[p.N] = f
	p.N++
	return f.Data
}

// seal writes the header and the sealed contents of a packet to dst, which has exactly their size with the tag. A program may change
// contents meanwhile: the tag is computed from the ciphertext, so the packet opens to some mixture of old and new bytes.
func seal(keys *secure.Sealer, dst, contents []byte, fields *wire.BaseFields) {
	fields.Flags |= wire.FlagSecure
	wire.PutBaseHeader(dst, fields)
	wire.PutGeneration(dst, keys.Generation())
	message := fields.Message
	if !fields.Operations && !fields.Piece {
		message = 0 // the field has the UDP port that this side receives on
	}
	header := dst[:wire.BaseHeaderLen]
	keys.Seal(dst[wire.BaseHeaderLen:wire.BaseHeaderLen], contents, header, fields.Number, message)
}
