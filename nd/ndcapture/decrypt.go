package ndcapture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// DecryptSummary is the result of Decrypt, in packets.
type DecryptSummary struct {
	Packets   uint64 `json:"packets"`   // in the capture
	Decrypted uint64 `json:"decrypted"` // written in plain

	// The encrypted packets that were written as they are, by the reason.

	NoHandshake uint64 `json:"noHandshake"` // the capture does not have the beginning of the connection
	NoSecret    uint64 `json:"noSecret"`    // the key log does not have the connection
	Truncated   uint64 `json:"truncated"`   // the capture does not have the whole packet
	WrongTag    uint64 `json:"wrongTag"`    // no key opens the packet: it is damaged or forged, or many packets before it are missing
}

// Kept returns the number of encrypted packets that were written as they are.
func (s *DecryptSummary) Kept() uint64 { return s.NoHandshake + s.NoSecret + s.Truncated + s.WrongTag }

// Decrypt copies a pcapng capture and opens the packets of encrypted connections. keys is a log that tls.Config.KeyLogWriter of either
// end wrote. The capture must have the TLS handshakes of the connections. An opened packet becomes the packet in plain that its sender
// would have sent without encryption, with a valid checksum, and has its key generation in an additional comment. Everything else is
// copied. Packets of interfaces other than Ethernet are not examined. The output shows what the connections carried.
//
// Errors: the errors of w, capture and keys; nd.ErrInvalidParameter if one of them is nil; an error if capture is not a pcapng file, or if
// keys has no secrets. If the capture ends in the middle of a block, the error is io.ErrUnexpectedEOF, and all blocks before it are written.
func Decrypt(w io.Writer, capture, keys io.Reader) (sum DecryptSummary, err error) {
	if w == nil || capture == nil || keys == nil {
		return sum, fmt.Errorf("ndcapture: decrypt: no writer, no capture or no keys: %w", nd.ErrInvalidParameter)
	}
	log, err := readKeyLog(keys)
	if err != nil {
		return sum, err
	}
	in := &reader{from: bufio.NewReaderSize(capture, bufferBytes)}
	out := bufio.NewWriterSize(w, bufferBytes)
	d := decrypter{flows: flows{log: log, of: map[uint64]*flow{}}, sum: &sum}
	for {
		kind, err := in.next()
		if err == nil {
			_, err = out.Write(d.block(in, kind))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			continue
		}
		return sum, errors.Join(err, out.Flush())
	}
}

// decrypter opens the packets of a capture, in their order.
type decrypter struct {
	flows flows
	sum   *DecryptSummary
}

// block returns the block that replaces the block at hand.
func (d *decrypter) block(in *reader, kind uint32) []byte {
	switch kind {
	case sectionBlock:
		d.flows.section++
		if n := blockHead + 8; len(in.block) >= n+8+blockTail {
			in.order.PutUint64(in.block[n:], math.MaxUint64) // the length of the section is not known any more
		}
	case packetBlock:
		d.sum.Packets++
		if frame, length, ok := in.frame(); ok {
			if plain, comment := d.frame(frame, length); plain != nil {
				return in.replace(plain, comment)
			}
		}
	}
	return in.block
}

// frame returns the frame in plain of an encrypted packet, and a comment. It returns none for every other frame, and learns from it.
func (d *decrypter) frame(frame []byte, length int) (plain []byte, comment string) {
	var f wire.Frame
	if wire.ParseFrame(frame, length, &f) != wire.DropNone || f.Offset > len(frame) {
		return nil, ""
	}
	packet := frame[f.Offset:min(f.Offset+f.Length, len(frame))]
	h, drop := wire.ParseBaseHeader(packet)
	if drop != wire.DropNone {
		return nil, ""
	}
	whole := len(packet) == f.Length
	if !h.Secure() {
		if whole && h.CRC() == wire.SumFirst(uint64(h.Number()), uint32(h.Message()), packet) { // of a handshake, whose numbers are small
			d.flows.learn(packet)
		}
		return nil, ""
	}
	if plain = d.packet(packet, h, whole); plain == nil {
		return nil, ""
	}
	d.sum.Decrypted++
	d.flows.learn(plain)
	return reframe(frame[:f.Offset], plain, f.Src.Is4()), fmt.Sprintf("decrypted, generation %d", h.Generation())
}

// packet opens a sealed packet, or counts why it does not.
func (d *decrypter) packet(packet []byte, h wire.BaseHeader, whole bool) (plain []byte) {
	f := d.flows.of[h.ConnID()]
	switch {
	case !whole:
		d.sum.Truncated++
	case f == nil:
		d.sum.NoHandshake++
	case len(f.keys) == 0:
		d.sum.NoSecret++
	default:
		if plain = f.open(packet, h); plain == nil {
			d.sum.WrongTag++
		}
	}
	return plain
}

// Lengths of headers (RFC 791, RFC 8200, RFC 768). Packets with IP options are not of the transport.
const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
)

// reframe returns a frame with the headers of another frame, for a packet of another length.
func reframe(headers, packet []byte, is4 bool) []byte {
	b := append(append([]byte(nil), headers...), packet...)
	udp := b[len(headers)-udpLen:]
	n := uint16(len(udp))
	binary.BigEndian.PutUint16(udp[4:], n)
	udp[6], udp[7] = 0, 0 // no checksum, as over IPv4
	if is4 {
		ip := b[len(headers)-udpLen-ipv4Len:][:ipv4Len]
		binary.BigEndian.PutUint16(ip[2:], ipv4Len+n)
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], ^uint16(wire.PartialSum(0, ip)))
		return b
	}
	ip := b[len(headers)-udpLen-ipv6Len:][:ipv6Len]
	binary.BigEndian.PutUint16(ip[4:], n)
	const protocolUDP = 17
	sum := wire.PartialSum(wire.PartialSum(protocolUDP+uint32(n), ip[8:]), udp) // the pseudo header, and what follows it
	binary.BigEndian.PutUint16(udp[6:], ^uint16(sum))
	if ^uint16(sum) == 0 {
		udp[6], udp[7] = 0xff, 0xff // zero is no checksum
	}
	return b
}
