// Package wire defines the format of ND packets and converts between packets and Go values, without I/O or state.
//
// The format is specified in docs/PROTOCOL.md; this package cites it by section. An ND packet travels as
//
//	+----------+--------+------+-----+-------------+--------+---------------------------------+
//	| Ethernet | 802.1Q | IPv4 | UDP | base header | blocks | operations, or one control      |
//	|    14    | 0 or 4 | IPv6 |  8  |     24      |        | message, a segment, or nothing  |
//	+----------+--------+------+-----+-------------+--------+---------------------------------+
//	           Frame, FrameTemplate  | BaseHeader  | Ack,   | Op, or Control with its body
//	                                               | Report
//
//	base header (PROTOCOL §3)             operation (PROTOCOL §4)         control (PROTOCOL §5)
//	 0  version, type, flags, message      0  opcode, op flags, length     0  opcode, flags, body length
//	 4  packet number                      4  0 to 20 bytes by opcode      4  body: Hello, Reject,
//	 8  connection id                      …  payload, zero padding           Disconnect, RTU, Probe, Reset,
//	16  offset in the message                 to a multiple of 8              Shake, nonce or cookie
//	20  CRC32C, or key generation
//
// A packet of type segment has only payload behind its blocks: bytes of one message that began in an earlier packet. The code calls
// it a piece.
//
// # Sealed packets
//
// Everything behind the base header of a packet with FlagSecure is encrypted, and a tag follows it (PROTOCOL §10.1). Only the base header
// can be parsed before the packet was opened. All further parsers take an opened packet without its tag.
//
// # Shape
//
// The base header is a view: it is checked once, then read in place. Everything behind it is decoded into structs that the caller
// owns and reuses. Append methods write variable bodies. Put functions write fixed headers directly into frame headroom.
//
// Parsers never allocate and never keep their input, but results may alias the input. They compare every length with the available
// bytes before they use it. They accept only bytes that the encoder would produce. FuzzParse tests check all of this.
//
// A packet may lie in several fragments. The headers of the frame, the base header, the blocks, a control message, and
// each operation header must be contiguous. Payload need not be, so the caller of ParseOp checks that the payload and
// its padding are complete.
//
// # Versions
//
// ParseBaseHeader accepts version 3 only. Versions are agreed in the handshake: a REQ names the range that its sender speaks
// (PROTOCOL §3.3).
//
// # Reserved bits
//
// Reserved bits are zero when sent. A packet is dropped (DropReserved) if they are not zero in the base header, in a
// block, in an operation header, in a control header or in a control body. The bodies of REQ and REP are an exception,
// because they travel before anything is agreed: there reserved bits are ignored (PROTOCOL §3.3).
package wire
