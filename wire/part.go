package wire

import "encoding/binary"

// Part is the PART extension (PROTOCOL §4.1): this packet carries one of Count parts of the operations of the packet with
// its PSN. How the parts are cut follows from Count and Total, so that no two of them can overlap or leave a gap.
type Part struct {
	Index uint8
	Count uint8  // 2 to MaxParts
	Total uint16 // bytes of operations of the whole packet
}

// ParsePart decodes the extension at the start of b, the bytes of a packet with FlagExt from ControlOffset on, into p. have is
// how many bytes follow the extension, which may lie in further fragments: it must be what the part covers.
func ParsePart(b []byte, have int, p *Part) DropReason {
	if len(b) < PartLen {
		return DropShort
	}
	if b[0] != extPart || b[3]|b[6]|b[7] != 0 {
		return DropReserved
	}
	*p = Part{Index: b[1], Count: b[2], Total: binary.BigEndian.Uint16(b[4:])}
	if p.Count < 2 || p.Count > MaxParts || p.Index >= p.Count || p.Total > MaxPacket-BaseHeaderLen {
		return DropPart
	}
	if from, to := p.Range(); from >= to || to-from != have {
		return DropPart
	}
	return DropNone
}

// Append appends the extension to dst (PROTOCOL §4.1).
func (p *Part) Append(dst []byte) []byte {
	dst = append(dst, extPart, p.Index, p.Count, 0)
	dst = binary.BigEndian.AppendUint16(dst, p.Total)
	return append(dst, 0, 0)
}

// Range says which bytes of the operations the part carries: all parts but the last are equally long, a multiple of OpAlign.
// A part that begins behind the end has none: from is not below to.
func (p *Part) Range() (from, to int) {
	each := (int(p.Total) + int(p.Count) - 1) / int(p.Count)
	each = (each + OpAlign - 1) &^ (OpAlign - 1)
	from = int(p.Index) * each
	return from, min(from+each, int(p.Total))
}

// PartsOf returns how many parts the total bytes of operations of a packet make when no packet is larger than limit, which
// is at least MinPacket.
func PartsOf(total, limit int) int {
	most := (limit - BaseHeaderLen - PartLen) &^ (OpAlign - 1)
	return (total + most - 1) / most
}
