package wire

// Version is the protocol version of this package (PROTOCOL §3.1).
const Version = 3

// Sizes and offsets of the fixed parts of a packet, in bytes.
const (
	// BaseHeaderLen is the length of the base header (PROTOCOL §3).
	BaseHeaderLen = 24
	// CRCOffset is the offset of the CRC32C in the base header (PROTOCOL §3).
	CRCOffset = 20
	// TagLen is the length of the tag behind the contents of a sealed packet (PROTOCOL §10.1).
	TagLen = 16
	// MaxOpHeader is the length of the longest operation header (PROTOCOL §4).
	MaxOpHeader = readReqLen
	// OpAlign is the alignment of each operation, relative to the first one (PROTOCOL §4).
	OpAlign = 8
	// ControlOffset is the offset of the control header in a control packet without blocks (PROTOCOL §5).
	ControlOffset = 24
	// ControlHeaderLen is the length of the control header: opcode, flags, body length (PROTOCOL §5).
	ControlHeaderLen = 4
	// ReportLen is the length of a REPORT block (PROTOCOL §3.6).
	ReportLen = 20
	// HelloLen is the length of a REQ or REP body without its items (PROTOCOL §7.1).
	HelloLen = 60
	// CookieLen is the length of a RETRY cookie (PROTOCOL §5).
	CookieLen = 16
	// RSTPacketLen is the length of an RST. A shorter packet is not answered with RST, so PING, RTU and DREQ are padded to this
	// length (PROTOCOL §7.4).
	RSTPacketLen = ControlOffset + ControlHeaderLen + resetLen
	// ChallengeLen is the length of the nonce of CHALLENGE and RESPONSE (PROTOCOL §5).
	ChallengeLen = 8
	// MaxBlocksLen is the length of the longest ACK block plus a REPORT block (PROTOCOL §3.5, §3.6).
	MaxBlocksLen = ackLen + (MaxAckRanges-1)*ackRangeLen + ReportLen
	// ResetTokenLen is the length of the token that authenticates an RST (PROTOCOL §5, §7.1).
	ResetTokenLen = 16
)

// Maxima and minima.
const (
	// MaxMessages is the largest number of messages in flight in a space, because a packet has only 16 bits of the message number
	// (PROTOCOL §3.1).
	MaxMessages = 1<<15 - 1
	// MaxNumbers is how many of its newest packets a sender remembers. Contents of older packets were acknowledged or declared
	// lost. So a receiver drops packets this far below the largest number received (PROTOCOL §3.1).
	MaxNumbers = 1 << 16
	// MaxPrivateData bounds the private data of REQ, REP and REJ (PROTOCOL §7.1).
	MaxPrivateData = 512
	// MinPacket is the size to which REQ is padded, and so the least packet size of every path (PROTOCOL §7.1).
	MinPacket = 1200
	// MaxPacket is the largest ND packet: 65535 less the IPv4 and UDP headers (PROTOCOL §2, RFC 791, RFC 768).
	MaxPacket = 65507
	// MaxAckRanges bounds the ranges of an ACK block (PROTOCOL §3.5).
	MaxAckRanges = 33
	// AckDelayUnit is the unit of an ACK block's delay in nanoseconds (PROTOCOL §3.5).
	AckDelayUnit = 256
	// AckDelayUnknown is the delay of an ACK block whose delay is unknown (PROTOCOL §3.5).
	AckDelayUnknown = 1<<16 - 1
	// DefaultPort is the UDP destination port unless configured otherwise (PROTOCOL §2).
	DefaultPort = 14791
)

// maxHelloBody is the longest body of a REQ or REP that is accepted. It fits into MinPacket behind the ACK block of a REP. It
// exceeds maxHelloSent, because later versions may add items.
const maxHelloBody = MinPacket - ControlOffset - ackLen - ControlHeaderLen

// maxHelloSent is the longest body of a REQ or REP that is sent: with cookie, private data, bulk port and grease.
const maxHelloSent = HelloLen + (itemHeaderLen + CookieLen) + (itemHeaderLen + MaxPrivateData) + (itemHeaderLen + itemAlign) + (itemHeaderLen + MaxGrease)

// maxHelloSecure is the longest body of a REQ with a part of a ClientHello, which has no private data.
const maxHelloSecure = maxHelloSent - (itemHeaderLen + MaxPrivateData) + (itemHeaderLen + fragmentLen + MaxHelloBytes)

// Compile-time checks of relations between these sizes.
const (
	// The CRC is the last field of the base header.
	_ = uint(BaseHeaderLen - CRCOffset - 4)
	_ = uint(CRCOffset + 4 - BaseHeaderLen)
	_ = uint(ControlOffset - BaseHeaderLen)
	_ = uint(BaseHeaderLen - ControlOffset)
	// A REQ with all items fits its padded size.
	_ = uint(maxHelloBody - maxHelloSent)
	_ = uint(maxHelloBody - maxHelloSecure)
	// The largest packet fits an IPv4 datagram, and its size fits the 16-bit field of PROBE.
	_ = uint(65535 - ipv4Len - udpLen - MaxPacket)
)
