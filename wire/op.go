package wire

import "encoding/binary"

// Op is a decoded operation header (PROTOCOL §4): one flat struct that callers reuse for every opcode. Fields that an
// opcode does not have are zero after ParseOp and ignored by PutOp.
type Op struct {
	// All operations.
	Opcode Opcode
	Flags  OpFlags
	Length uint16 // payload bytes in this packet; always ReadReqPayloadLen for READ_REQ, 0 for TERM

	// WRITE: where the first byte here goes. READ_REQ: where the READ begins.
	Address uint64
	Token   uint32

	// Number is the message number of a WRITE, the SEND number of a SEND, the read id of READ_REQ and READ_RESP, and
	// the failing number of a TERM.
	Number uint32

	// SEND and READ_RESP: where this piece lies in its message. Total is the length of the READ in READ_REQ.
	Offset uint32
	Total  uint32
	Imm    uint32 // token of SEND_INV, immediate of SEND_IMM

	// TERM.
	Reason    TermReason
	FailedOp  Opcode
	FailedPSN PSN
	Detail    uint32
}

// ParseOp decodes the operation header at the start of b, taken from a packet of the given space, into op (PROTOCOL §4).
// b must hold the header contiguously, and for READ_REQ its payload too. Everything the header says is checked, except
// that the payload is there: it may lie in further fragments, and the caller knows how much there is. On a drop the
// contents of op are undefined.
func ParseOp(b []byte, space Space, op *Op) DropReason {
	if len(b) < OpHeaderLen {
		return DropShort
	}
	h := (*[OpHeaderLen]byte)(b)
	opcode, flags := Opcode(h[0]), OpFlags(h[1])
	if opcode < OpWrite || opcode > OpTerm {
		return DropOpcode
	}
	if opcode.Space() != space {
		return DropOpSpace
	}
	if flags&^knownOpFlags != 0 {
		return DropReserved
	}
	*op = Op{Opcode: opcode, Flags: flags, Length: binary.BigEndian.Uint16(h[2:])}
	switch opcode {
	case OpWrite:
		op.Address = binary.BigEndian.Uint64(h[4:])
		op.Token = binary.BigEndian.Uint32(h[12:])
		op.Number = binary.BigEndian.Uint32(h[16:])
		if flags&OpSolicit != 0 {
			return DropReserved
		}
		return DropNone
	case OpReadReq:
		return parseReadReq(b, op)
	case OpTerm:
		return parseTerm(h, op)
	default: // SEND, SEND_INV, SEND_IMM, READ_RESP
		return parsePiece(h, op)
	}
}

// parsePiece decodes the operations that place a piece at an offset of a message of known length.
func parsePiece(h *[OpHeaderLen]byte, op *Op) DropReason {
	op.Number = binary.BigEndian.Uint32(h[4:])
	op.Offset = binary.BigEndian.Uint32(h[8:])
	op.Total = binary.BigEndian.Uint32(h[12:])
	op.Imm = binary.BigEndian.Uint32(h[16:])
	if op.Imm != 0 && (op.Opcode == OpSend || op.Opcode == OpReadResp) {
		return DropReserved
	}
	if op.Flags&OpSolicit != 0 && (op.Opcode == OpReadResp || op.Flags&OpLast == 0) {
		return DropReserved
	}
	// 64 bits, because offset plus length may pass 2^32.
	if uint64(op.Offset)+uint64(op.Length) > uint64(op.Total) {
		return DropLength
	}
	return DropNone
}

func parseReadReq(b []byte, op *Op) DropReason {
	if op.Length != ReadReqPayloadLen {
		return DropLength
	}
	if len(b) < OpHeaderLen+ReadReqPayloadLen {
		return DropShort
	}
	h := (*[OpHeaderLen + ReadReqPayloadLen]byte)(b)
	op.Address = binary.BigEndian.Uint64(h[4:])
	op.Token = binary.BigEndian.Uint32(h[12:])
	op.Total = binary.BigEndian.Uint32(h[16:])
	op.Number = binary.BigEndian.Uint32(h[20:])
	if op.Flags != OpFirst|OpLast || binary.BigEndian.Uint32(h[24:]) != 0 {
		return DropReserved
	}
	return DropNone
}

func parseTerm(h *[OpHeaderLen]byte, op *Op) DropReason {
	if op.Length != 0 {
		return DropLength
	}
	op.Reason = TermReason(binary.BigEndian.Uint16(h[4:]))
	op.FailedOp = Opcode(h[6])
	op.FailedPSN = PSN(binary.BigEndian.Uint32(h[8:]))
	op.Number = binary.BigEndian.Uint32(h[12:])
	op.Detail = binary.BigEndian.Uint32(h[16:])
	if op.Flags != OpFirst|OpLast || h[7] != 0 {
		return DropReserved
	}
	return DropNone
}

// PutOp writes the header of op to b[:OpHeaderLen], and for READ_REQ its payload behind it (PROTOCOL §4); it panics if
// b is shorter or op is not an operation. Payload and padding are the caller's.
func PutOp(b []byte, op *Op) {
	h := (*[OpHeaderLen]byte)(b)
	h[0] = uint8(op.Opcode)
	h[1] = uint8(op.Flags)
	binary.BigEndian.PutUint16(h[2:], op.Length)
	switch op.Opcode {
	case OpWrite:
		binary.BigEndian.PutUint64(h[4:], op.Address)
		binary.BigEndian.PutUint32(h[12:], op.Token)
		binary.BigEndian.PutUint32(h[16:], op.Number)
	case OpSend, OpReadResp:
		putPiece(h, op, 0)
	case OpSendInv, OpSendImm:
		putPiece(h, op, op.Imm)
	case OpReadReq:
		putReadReq((*[OpHeaderLen + ReadReqPayloadLen]byte)(b), op)
	case OpTerm:
		binary.BigEndian.PutUint16(h[2:], 0)
		binary.BigEndian.PutUint16(h[4:], uint16(op.Reason))
		h[6] = uint8(op.FailedOp)
		h[7] = 0
		binary.BigEndian.PutUint32(h[8:], uint32(op.FailedPSN))
		binary.BigEndian.PutUint32(h[12:], op.Number)
		binary.BigEndian.PutUint32(h[16:], op.Detail)
	default:
		panic("wire: PutOp of an opcode that is not an operation")
	}
}

func putPiece(h *[OpHeaderLen]byte, op *Op, last uint32) {
	binary.BigEndian.PutUint32(h[4:], op.Number)
	binary.BigEndian.PutUint32(h[8:], op.Offset)
	binary.BigEndian.PutUint32(h[12:], op.Total)
	binary.BigEndian.PutUint32(h[16:], last)
}

func putReadReq(h *[OpHeaderLen + ReadReqPayloadLen]byte, op *Op) {
	binary.BigEndian.PutUint16(h[2:], ReadReqPayloadLen)
	binary.BigEndian.PutUint64(h[4:], op.Address)
	binary.BigEndian.PutUint32(h[12:], op.Token)
	binary.BigEndian.PutUint32(h[16:], op.Total)
	binary.BigEndian.PutUint32(h[20:], op.Number)
	binary.BigEndian.PutUint32(h[24:], 0)
}
