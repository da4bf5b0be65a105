package wire

import "encoding/binary"

// Op is a decoded operation (PROTOCOL §4). Callers reuse the struct for every opcode. Fields that an opcode does not have are zero
// after ParseOp, and PutOp ignores them. Message and Offset belong to the packet, and the caller sets them.
type Op struct {
	// Fields of all operations.
	Opcode  Opcode
	Flags   OpFlags
	Length  uint16 // payload bytes in this packet; 0 for READ_REQ and TERM
	Message uint32 // message number in its space
	Offset  uint32 // offset of the payload in its message

	// WRITE: address of this payload. READ_REQ: address of the READ.
	Address uint64
	Token   uint32

	Number uint32 // SEND: SEND number; READ_REQ: read id; TERM: number of the failed message
	Total  uint32 // length of the message, or for READ_REQ of the READ
	Imm    uint32 // SEND_INV: token; SEND_IMM: immediate

	// TERM.
	Reason   TermReason
	FailedOp Opcode
}

// Lengths of operation headers (PROTOCOL §4).
const (
	moreLen     = 4
	readRespLen = 8
	termLen     = 12
	writeLen    = 16
	sendLen     = 16
	writeOfLen  = 20 // the first segment of a WRITE of several segments
	readReqLen  = 24
)

// OpLen returns the length of the operation's header (PROTOCOL §4), or zero if the opcode and flags are invalid.
func OpLen(opcode Opcode, flags OpFlags) int {
	switch opcode {
	case OpWrite:
		if flags&OpLast == 0 {
			return writeOfLen
		}
		return writeLen
	case OpSend, OpSendInv, OpSendImm:
		return sendLen
	case OpReadReq:
		return readReqLen
	case OpReadResp:
		return readRespLen
	case OpTerm:
		return termLen
	case OpMore:
		return moreLen
	default:
		return 0
	}
}

// ParseOp decodes the operation header at the start of b into op and returns its length (PROTOCOL §4). space is the space of the
// packet. b must hold the whole header. The payload is not checked, because it may lie in further fragments. On a drop the contents
// of op are undefined.
func ParseOp(b []byte, space Space, op *Op) (n int, d DropReason) {
	if len(b) < moreLen {
		return 0, DropShort
	}
	opcode, flags := Opcode(b[0]), OpFlags(b[1])
	if opcode == OpWrite && flags == OpLast && space == RequestSpace && len(b) >= writeLen { // fast path for the most frequent operation
		length := binary.BigEndian.Uint16(b[2:])
		*op = Op{
			Opcode: OpWrite, Flags: OpLast, Length: length, Total: uint32(length),
			Token: binary.BigEndian.Uint32(b[4:]), Address: binary.BigEndian.Uint64(b[8:]),
		}
		return writeLen, DropNone
	}
	if n = OpLen(opcode, flags); n == 0 {
		return 0, DropOpcode
	}
	if opcode.Space() != space && opcode != OpMore {
		return 0, DropOpSpace
	}
	if flags&^knownOpFlags != 0 {
		return 0, DropReserved
	}
	if len(b) < n {
		return 0, DropShort
	}
	*op = Op{Opcode: opcode, Flags: flags, Length: binary.BigEndian.Uint16(b[2:])}
	switch opcode {
	case OpWrite:
		op.Token = binary.BigEndian.Uint32(b[4:])
		op.Address = binary.BigEndian.Uint64(b[8:])
		op.Total = uint32(op.Length)
		if flags&OpLast == 0 {
			op.Total = binary.BigEndian.Uint32(b[16:])
		}
	case OpReadReq:
		op.Token = binary.BigEndian.Uint32(b[4:])
		op.Address = binary.BigEndian.Uint64(b[8:])
		op.Total = binary.BigEndian.Uint32(b[16:])
		op.Number = binary.BigEndian.Uint32(b[20:])
		return n, op.checkWhole()
	case OpReadResp:
		op.Total = binary.BigEndian.Uint32(b[4:])
	case OpTerm:
		op.Reason = TermReason(binary.BigEndian.Uint16(b[4:]))
		op.FailedOp = Opcode(b[6])
		op.Number = binary.BigEndian.Uint32(b[8:])
		if b[7] != 0 {
			return n, DropReserved
		}
		return n, op.checkWhole()
	case OpMore:
		if op.Length == 0 {
			return n, DropLength
		}
		return n, op.checkSolicit()
	default: // SEND, SEND_INV, SEND_IMM
		op.Number = binary.BigEndian.Uint32(b[4:])
		op.Total = binary.BigEndian.Uint32(b[8:])
		op.Imm = binary.BigEndian.Uint32(b[12:])
		if opcode == OpSend && op.Imm != 0 {
			return n, DropReserved
		}
	}
	return n, op.checkFirst()
}

// checkWhole checks an operation that has no payload.
func (op *Op) checkWhole() DropReason {
	switch {
	case op.Length != 0:
		return DropLength
	case op.Flags != OpLast:
		return DropReserved
	}
	return DropNone
}

// checkFirst checks the first segment of a message.
func (op *Op) checkFirst() DropReason {
	length, last := uint32(op.Length), op.Flags&OpLast != 0
	if length > op.Total || last != (length == op.Total) || !last && length == 0 {
		return DropLength
	}
	return op.checkSolicit()
}

// checkSolicit checks that only a SEND has the flag SOLICIT.
func (op *Op) checkSolicit() DropReason {
	if op.Flags&OpSolicit != 0 && !op.Opcode.isSend() {
		return DropReserved
	}
	return DropNone
}

// WriteLen is the length of the header of a WRITE with one segment.
const WriteLen = writeLen

// PutWrite is PutOp for a WRITE of n bytes in one segment.
func PutWrite(b []byte, address uint64, token uint32, n uint16) {
	h := b[:writeLen]
	binary.BigEndian.PutUint64(h, uint64(OpWrite)<<56|uint64(OpLast)<<48|uint64(n)<<32|uint64(token))
	binary.BigEndian.PutUint64(h[8:], address)
}

// PutOp writes the header of op to b and returns its length (PROTOCOL §4). It panics if b is shorter or op is invalid. The caller
// writes payload and padding.
func PutOp(b []byte, op *Op) (n int) {
	n = OpLen(op.Opcode, op.Flags)
	if n == 0 {
		panic("wire: PutOp of an opcode that is not an operation")
	}
	h := b[:n]
	h[0] = uint8(op.Opcode)
	h[1] = uint8(op.Flags)
	binary.BigEndian.PutUint16(h[2:], op.Length)
	switch op.Opcode {
	case OpWrite:
		binary.BigEndian.PutUint32(h[4:], op.Token)
		binary.BigEndian.PutUint64(h[8:], op.Address)
		if n == writeOfLen {
			binary.BigEndian.PutUint32(h[16:], op.Total)
		}
	case OpSend, OpSendInv, OpSendImm:
		imm := op.Imm
		if op.Opcode == OpSend {
			imm = 0
		}
		binary.BigEndian.PutUint32(h[4:], op.Number)
		binary.BigEndian.PutUint32(h[8:], op.Total)
		binary.BigEndian.PutUint32(h[12:], imm)
	case OpReadReq:
		binary.BigEndian.PutUint32(h[4:], op.Token)
		binary.BigEndian.PutUint64(h[8:], op.Address)
		binary.BigEndian.PutUint32(h[16:], op.Total)
		binary.BigEndian.PutUint32(h[20:], op.Number)
	case OpReadResp:
		binary.BigEndian.PutUint32(h[4:], op.Total)
	case OpTerm:
		binary.BigEndian.PutUint16(h[4:], uint16(op.Reason))
		h[6], h[7] = uint8(op.FailedOp), 0
		binary.BigEndian.PutUint32(h[8:], op.Number)
	default: // MORE has no further fields
	}
	return n
}
