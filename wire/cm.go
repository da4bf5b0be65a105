package wire

import "encoding/binary"

// Body lengths of the fixed control messages (PROTOCOL §5).
const (
	nonceLen  = 4
	probeLen  = 8
	rtuLen    = 4
	rejectLen = 4 // without private data
	resetLen  = 16 + ResetTokenLen
)

// Offsets of the fields of a REQ or REP body (PROTOCOL §7.1).
const (
	helloOffConnID     = 0
	helloOffNonce      = 8
	helloOffSrcPort    = 16
	helloOffDstPort    = 18
	helloOffFeatures   = 20
	helloOffMinVersion = 24
	helloOffMaxVersion = 25
	helloOffCookieLen  = 26
	helloOffIRD        = 28
	helloOffORD        = 30
	helloOffWindow     = 32
	helloOffPrivateLen = 34
	helloOffMaxPacket  = 36
	helloOffLimit      = 40
	helloOffFirstPSN   = 44 // one word per space
	helloOffToken      = 52
)

// FeatureECT is the feature that sequenced packets may be marked (PROTOCOL §7.1).
const FeatureECT uint32 = 1 << 0

// Hello is the body of REQ and REP (PROTOCOL §7.1).
type Hello struct {
	ConnID, Nonce          uint64
	SrcPort, DstPort       uint16 // ND ports, sender's and receiver's
	Features               uint32 // offered or agreed
	MinVersion, MaxVersion uint8
	IRD, ORD               uint16 // inbound and outbound read limit
	Window                 uint16 // packets per space that the sender of this message will hold
	MaxPacket              uint32 // largest ND packet the sender can receive, bytes
	ReceiveLimit           uint32 // PROTOCOL §5.1
	FirstPSN               [NumSpaces]PSN
	ResetToken             [ResetTokenLen]byte

	// Views into the parsed body; nil or CookieLen, and up to MaxPrivateData bytes.
	Cookie  []byte
	Private []byte
}

// ParseHello decodes a REQ or REP body into h without copying cookie and private data (PROTOCOL §7.1). Reserved fields
// are ignored (PROTOCOL §3.3). On a drop the contents of h are undefined.
func ParseHello(body []byte, h *Hello) DropReason {
	if len(body) < HelloLen {
		return DropShort
	}
	b := (*[HelloLen]byte)(body)
	cookieLen := int(b[helloOffCookieLen])
	if cookieLen != 0 && cookieLen != CookieLen {
		return DropControl
	}
	privateLen := int(binary.BigEndian.Uint16(b[helloOffPrivateLen:]))
	if privateLen > MaxPrivateData || len(body) != HelloLen+cookieLen+privateLen {
		return DropLength
	}
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
	h.IRD = binary.BigEndian.Uint16(b[helloOffIRD:])
	h.ORD = binary.BigEndian.Uint16(b[helloOffORD:])
	h.Window = binary.BigEndian.Uint16(b[helloOffWindow:])
	h.MaxPacket = binary.BigEndian.Uint32(b[helloOffMaxPacket:])
	h.ReceiveLimit = binary.BigEndian.Uint32(b[helloOffLimit:])
	h.FirstPSN[RequestSpace] = PSN(binary.BigEndian.Uint32(b[helloOffFirstPSN:]))
	h.FirstPSN[ResponseSpace] = PSN(binary.BigEndian.Uint32(b[helloOffFirstPSN+4:]))
	h.ResetToken = [ResetTokenLen]byte(b[helloOffToken:])
	h.Cookie = view(body[HelloLen:], cookieLen)
	h.Private = view(body[HelloLen+cookieLen:], privateLen)
	return DropNone
}

// view returns b[:n] without spare capacity, and nil when there is nothing to see.
func view(b []byte, n int) []byte {
	if n == 0 {
		return nil
	}
	return b[:n:n]
}

// EncodedLen returns the number of bytes Append adds (PROTOCOL §7.1).
func (h *Hello) EncodedLen() int { return HelloLen + len(h.Cookie) + len(h.Private) }

// Append appends the REQ or REP body to dst (PROTOCOL §7.1). It panics if cookie or private data have a length that
// cannot be sent: the caller has checked both.
func (h *Hello) Append(dst []byte) []byte {
	if (len(h.Cookie) != 0 && len(h.Cookie) != CookieLen) || len(h.Private) > MaxPrivateData {
		panic("wire: cookie or private data of a length that cannot be sent")
	}
	dst = binary.BigEndian.AppendUint64(dst, h.ConnID)
	dst = binary.BigEndian.AppendUint64(dst, h.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, h.SrcPort)
	dst = binary.BigEndian.AppendUint16(dst, h.DstPort)
	dst = binary.BigEndian.AppendUint32(dst, h.Features)
	dst = append(dst, h.MinVersion, h.MaxVersion, uint8(len(h.Cookie)), 0)
	dst = binary.BigEndian.AppendUint16(dst, h.IRD)
	dst = binary.BigEndian.AppendUint16(dst, h.ORD)
	dst = binary.BigEndian.AppendUint16(dst, h.Window)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.Private)))
	dst = binary.BigEndian.AppendUint32(dst, h.MaxPacket)
	dst = binary.BigEndian.AppendUint32(dst, h.ReceiveLimit)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.FirstPSN[RequestSpace]))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.FirstPSN[ResponseSpace]))
	dst = append(dst, h.ResetToken[:]...)
	dst = append(dst, h.Cookie...)
	return append(dst, h.Private...)
}

// Reject is the body of REJ (PROTOCOL §5). Private is a view into the parsed body.
type Reject struct {
	Reason  RejectReason
	Private []byte
}

// ParseReject decodes a REJ body into r (PROTOCOL §5).
func ParseReject(body []byte, r *Reject) DropReason {
	if len(body) < rejectLen {
		return DropShort
	}
	n := int(binary.BigEndian.Uint16(body[2:]))
	if n > MaxPrivateData || len(body) != rejectLen+n {
		return DropLength
	}
	r.Reason = RejectReason(binary.BigEndian.Uint16(body))
	r.Private = view(body[rejectLen:], n)
	return DropNone
}

// EncodedLen returns the number of bytes Append adds (PROTOCOL §5).
func (r *Reject) EncodedLen() int { return rejectLen + len(r.Private) }

// Append appends the REJ body to dst (PROTOCOL §5); it panics if the private data are too long.
func (r *Reject) Append(dst []byte) []byte {
	if len(r.Private) > MaxPrivateData {
		panic("wire: private data of a length that cannot be sent")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Reason))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Private)))
	return append(dst, r.Private...)
}

// RTU is the body of RTU, ready to use (PROTOCOL §5).
type RTU struct {
	ReceiveLimit uint32 // PROTOCOL §5.1
}

// ParseRTU decodes an RTU body into r (PROTOCOL §5).
func ParseRTU(body []byte, r *RTU) DropReason {
	if len(body) != rtuLen {
		return DropLength
	}
	r.ReceiveLimit = binary.BigEndian.Uint32(body)
	return DropNone
}

// Append appends the RTU body to dst (PROTOCOL §5).
func (r *RTU) Append(dst []byte) []byte { return binary.BigEndian.AppendUint32(dst, r.ReceiveLimit) }

// ParseCookie returns the cookie of a RETRY body as a view into it (PROTOCOL §5).
func ParseCookie(body []byte) ([]byte, DropReason) {
	if len(body) != CookieLen {
		return nil, DropLength
	}
	return body[:CookieLen:CookieLen], DropNone
}

// AppendCookie appends the RETRY body to dst (PROTOCOL §5).
func AppendCookie(dst []byte, cookie *[CookieLen]byte) []byte { return append(dst, cookie[:]...) }
