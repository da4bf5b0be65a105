package wire

import "encoding/binary"

// Offsets of the fields of a REQ or REP body (PROTOCOL §7.1).
const (
	helloOffConnID     = 0
	helloOffNonce      = 8
	helloOffSrcPort    = 16
	helloOffDstPort    = 18
	helloOffFeatures   = 20
	helloOffMinVersion = 24
	helloOffMaxVersion = 25
	helloOffUDPPort    = 26
	helloOffIRD        = 28
	helloOffORD        = 30
	helloOffWindow     = 32
	helloOffMaxPacket  = 36
	helloOffLimit      = 40
	helloOffToken      = 44
)

// FeatureECT means that packets with contents may be ECN-capable (PROTOCOL §7.1).
const FeatureECT uint32 = 1 << 0

// FeatureRuns means that the receiver's kernel splits datagrams merged by GRO (PROTOCOL §7.1).
const FeatureRuns uint32 = 1 << 1

// FeatureBulk means that packets with contents may be sent to a second UDP port (PROTOCOL §11.1).
const FeatureBulk uint32 = 1 << 2

// FeatureSecure means that the packets of the connection are encrypted (PROTOCOL §10). It is never agreed halfway: an answer without
// it refuses the connection.
const FeatureSecure uint32 = 1 << 3

// FeatureLong means that the receiver takes long packets at its bulk port (PROTOCOL §11.2).
const FeatureLong uint32 = 1 << 4

// Hello is the body of REQ and REP (PROTOCOL §7.1).
type Hello struct {
	ConnID, Nonce          uint64
	SrcPort, DstPort       uint16 // ND ports, sender's and receiver's
	Features               uint32 // offered or agreed
	MinVersion, MaxVersion uint8
	UDPPort                uint16 // UDP port on which the sender receives
	IRD, ORD               uint16 // inbound and outbound read limit
	Window                 uint32 // bytes of packets behind a gap that the sender of this message will store
	MaxPacket              uint32 // largest ND packet that the sender can receive, in bytes
	ReceiveLimit           uint32 // PROTOCOL §3.6
	ResetToken             [ResetTokenLen]byte

	// Items. After parsing they are views of the body: nil or CookieLen bytes, and up to MaxPrivateData bytes.
	Cookie  []byte
	Private []byte
	// BulkPort is the UDP port of the sender's bulk path; zero for none (PROTOCOL §11.1).
	BulkPort uint16
	// Fragment is a part of the ClientHello; without bytes there is none (PROTOCOL §10.2).
	Fragment HelloFragment
	// Grease is an item of a type that no receiver knows. It is sent if its type is not zero (PROTOCOL §7.1). After parsing, it is
	// the last item of an unknown type.
	Grease Item
}

// ParseHello decodes a REQ or REP body into h without copying items (PROTOCOL §7.1). Items of unknown types are
// ignored (PROTOCOL §3.3). On a drop the contents of h are undefined.
func ParseHello(body []byte, h *Hello) DropReason {
	if len(body) < HelloLen {
		return DropShort
	}
	b := (*[HelloLen]byte)(body)
	h.ConnID = binary.BigEndian.Uint64(b[helloOffConnID:])
	if h.ConnID == 0 { // PROTOCOL §6
		return DropControl
	}
	h.Nonce = binary.BigEndian.Uint64(b[helloOffNonce:])
	h.SrcPort = binary.BigEndian.Uint16(b[helloOffSrcPort:])
	h.DstPort = binary.BigEndian.Uint16(b[helloOffDstPort:])
	h.Features = binary.BigEndian.Uint32(b[helloOffFeatures:])
	h.MinVersion = b[helloOffMinVersion]
	h.MaxVersion = b[helloOffMaxVersion]
	h.UDPPort = binary.BigEndian.Uint16(b[helloOffUDPPort:])
	h.IRD = binary.BigEndian.Uint16(b[helloOffIRD:])
	h.ORD = binary.BigEndian.Uint16(b[helloOffORD:])
	h.Window = binary.BigEndian.Uint32(b[helloOffWindow:])
	h.MaxPacket = binary.BigEndian.Uint32(b[helloOffMaxPacket:])
	h.ReceiveLimit = binary.BigEndian.Uint32(b[helloOffLimit:])
	h.ResetToken = [ResetTokenLen]byte(b[helloOffToken:])
	return h.parseItems(body[HelloLen:])
}

// parseItems parses the items behind the fixed part (PROTOCOL §7.1).
func (h *Hello) parseItems(b []byte) DropReason {
	h.Cookie, h.Private, h.BulkPort, h.Fragment, h.Grease = nil, nil, 0, HelloFragment{}, Item{}
	for last := ItemType(0); len(b) > 0; {
		it, rest, d := ParseItem(b, last)
		if d != DropNone {
			return d
		}
		switch it.Type {
		case ItemCookie:
			if len(it.Value) != CookieLen {
				return DropItem
			}
			h.Cookie = it.Value
		case ItemPrivate:
			if len(it.Value) == 0 || len(it.Value) > MaxPrivateData {
				return DropItem
			}
			h.Private = it.Value
		case ItemBulkPort:
			if len(it.Value) != bulkPortLen {
				return DropItem
			}
			h.BulkPort = binary.BigEndian.Uint16(it.Value)
		case ItemHello:
			if d := h.Fragment.parse(it.Value); d != DropNone {
				return d
			}
		default:
			h.Grease = it
		}
		b, last = rest, it.Type
	}
	return DropNone
}

// EncodedLen returns the number of bytes Append adds (PROTOCOL §7.1).
func (h *Hello) EncodedLen() int {
	n := HelloLen
	if len(h.Cookie) > 0 {
		n += itemLen(len(h.Cookie))
	}
	if len(h.Private) > 0 {
		n += itemLen(len(h.Private))
	}
	if h.BulkPort != 0 {
		n += itemLen(bulkPortLen)
	}
	if len(h.Fragment.Bytes) > 0 {
		n += itemLen(fragmentLen + len(h.Fragment.Bytes))
	}
	if h.Grease.Type != 0 {
		n += itemLen(len(h.Grease.Value))
	}
	return n
}

// Append appends the REQ or REP body to dst (PROTOCOL §7.1). It panics if the length of an item is invalid, or if Grease has a type
// outside the range for grease. It also panics if the body has both private data and a fragment. The caller must have checked them.
func (h *Hello) Append(dst []byte) []byte {
	if (len(h.Cookie) != 0 && len(h.Cookie) != CookieLen) || len(h.Private) > MaxPrivateData {
		panic("wire: cookie or private data of a length that cannot be sent")
	}
	if f := &h.Fragment; len(f.Bytes) > MaxHelloBytes || int(f.Offset)+len(f.Bytes) > int(f.Total) || len(f.Bytes) > 0 && len(h.Private) > 0 {
		panic("wire: fragment of a ClientHello that cannot be sent")
	}
	if g := &h.Grease; g.Type != 0 && g.Type < ItemGrease || len(g.Value) > MaxGrease {
		panic("wire: grease that cannot be sent")
	}
	dst = binary.BigEndian.AppendUint64(dst, h.ConnID)
	dst = binary.BigEndian.AppendUint64(dst, h.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, h.SrcPort)
	dst = binary.BigEndian.AppendUint16(dst, h.DstPort)
	dst = binary.BigEndian.AppendUint32(dst, h.Features)
	dst = append(dst, h.MinVersion, h.MaxVersion)
	dst = binary.BigEndian.AppendUint16(dst, h.UDPPort)
	dst = binary.BigEndian.AppendUint16(dst, h.IRD)
	dst = binary.BigEndian.AppendUint16(dst, h.ORD)
	dst = binary.BigEndian.AppendUint32(dst, h.Window)
	dst = binary.BigEndian.AppendUint32(dst, h.MaxPacket)
	dst = binary.BigEndian.AppendUint32(dst, h.ReceiveLimit)
	dst = append(dst, h.ResetToken[:]...)
	if len(h.Cookie) > 0 {
		dst = appendItem(dst, Item{ItemCookie, h.Cookie})
	}
	if len(h.Private) > 0 {
		dst = appendItem(dst, Item{ItemPrivate, h.Private})
	}
	if h.BulkPort != 0 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(ItemBulkPort))
		dst = append(dst, 0, bulkPortLen)
		dst = binary.BigEndian.AppendUint16(dst, h.BulkPort)
		dst = append(dst, 0, 0) // padding
	}
	if len(h.Fragment.Bytes) > 0 {
		dst = h.Fragment.append(dst)
	}
	if h.Grease.Type != 0 {
		dst = appendItem(dst, h.Grease)
	}
	return dst
}
