package wire

import "encoding/binary"

// ProbeLen is the length of the bodies of PROBE and PROBE_ACK (PROTOCOL §5).
const ProbeLen = 8

// PingLen is the length of the body of PING, and NonceLen the length of the body of PONG (PROTOCOL §5).
const (
	PingLen  = 8
	NonceLen = 4
)

// Body lengths of the remaining fixed control messages (PROTOCOL §5).
const (
	RTULen    = 4
	rejectLen = 4 // without private data
	resetLen  = 16 + ResetTokenLen
)

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

// view returns b[:n] without spare capacity, or nil if n is zero.
func view(b []byte, n int) []byte {
	if n == 0 {
		return nil
	}
	return b[:n:n]
}

// Append appends the REJ body to dst (PROTOCOL §5). It panics if the private data are too long.
func (r *Reject) Append(dst []byte) []byte {
	if len(r.Private) > MaxPrivateData {
		panic("wire: private data of a length that cannot be sent")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Reason))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Private)))
	return append(dst, r.Private...)
}

// RTU is the body of RTU (PROTOCOL §5).
type RTU struct {
	ReceiveLimit uint32 // PROTOCOL §3.6
}

// ParseRTU decodes an RTU body into r (PROTOCOL §5).
func ParseRTU(body []byte, r *RTU) DropReason {
	if len(body) != RTULen {
		return DropLength
	}
	r.ReceiveLimit = binary.BigEndian.Uint32(body)
	return DropNone
}

// Append appends the RTU body to dst (PROTOCOL §5).
func (r *RTU) Append(dst []byte) []byte { return binary.BigEndian.AppendUint32(dst, r.ReceiveLimit) }

// ParseCookie returns the cookie of a RETRY body, as a view of the body (PROTOCOL §5).
func ParseCookie(body []byte) ([]byte, DropReason) {
	if len(body) != CookieLen {
		return nil, DropLength
	}
	return body[:CookieLen:CookieLen], DropNone
}

// AppendCookie appends the RETRY body to dst (PROTOCOL §5).
func AppendCookie(dst []byte, cookie *[CookieLen]byte) []byte { return append(dst, cookie[:]...) }
