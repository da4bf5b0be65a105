package wire

// Version is the protocol version this package speaks (PROTOCOL §3.1).
const Version = 3

// Sizes and offsets of the fixed parts of a packet, in bytes.
const (
	// BaseHeaderLen is the length of the base header (PROTOCOL §3).
	BaseHeaderLen = 24
	// CRCOffset is where the CRC32C sits in the base header (PROTOCOL §3).
	CRCOffset = 20
	// MaxOpHeader is the length of the longest operation header (PROTOCOL §4).
	MaxOpHeader = readReqLen
	// OpAlign is the multiple, counted from where the first one does, at which each operation starts (PROTOCOL §4).
	OpAlign = 8
	// ControlOffset is where the control header starts in a control packet without blocks (PROTOCOL §5).
	ControlOffset = 24
	// ControlHeaderLen is the length of the control header: opcode, flags, body length (PROTOCOL §5).
	ControlHeaderLen = 4
	// ReportLen is the length of a REPORT block (PROTOCOL §3.6).
	ReportLen = 20
	// HelloLen is the length of a REQ or REP body without its items (PROTOCOL §7.1).
	HelloLen = 60
	// CookieLen is the length of a RETRY cookie (PROTOCOL §5).
	CookieLen = 16
	// RSTPacketLen is the length of an RST: what is shorter is not answered with one, so PING, RTU and DREQ are padded to it
	// (PROTOCOL §7.4).
	RSTPacketLen = ControlOffset + ControlHeaderLen + resetLen
	// ChallengeLen is the length of the nonce of CHALLENGE and RESPONSE (PROTOCOL §5).
	ChallengeLen = 8
	// MaxBlocksLen is the length of the longest ACK block and a REPORT block (PROTOCOL §3.5, §3.6).
	MaxBlocksLen = ackLen + (MaxAckRanges-1)*ackRangeLen + ReportLen
	// ResetTokenLen is the length of the token that proves an RST (PROTOCOL §5, §7.1).
	ResetTokenLen = 16
)

// Maxima and minima.
const (
	// MaxMessages is the number of messages of a space that may be under way: a packet names a message by 16 bits (PROTOCOL §3.1).
	MaxMessages = 1<<15 - 1
	// MaxNumbers is how many of its newest packets a sender remembers. The contents of older ones were acknowledged or count as lost. So a
	// receiver drops packets that are this far below the largest number it has heard (PROTOCOL §3.1).
	MaxNumbers = 1 << 16
	// MaxPrivateData bounds the private data of REQ, REP and REJ (PROTOCOL §7.1).
	MaxPrivateData = 512
	// MinPacket is the size to which REQ is padded, so the size every path must carry (PROTOCOL §7.1).
	MinPacket = 1200
	// MaxPacket is the largest ND packet: 65535 less the IPv4 and UDP headers (PROTOCOL §2, RFC 791, RFC 768).
	MaxPacket = 65507
	// MaxAckRanges bounds the ranges of an ACK block (PROTOCOL §3.5).
	MaxAckRanges = 33
	// AckDelayUnit is the unit of an ACK block's delay in nanoseconds (PROTOCOL §3.5).
	AckDelayUnit = 256
	// AckDelayUnknown is the delay of an ACK block that is none (PROTOCOL §3.5).
	AckDelayUnknown = 1<<16 - 1
	// DefaultPort is the UDP destination port unless configured otherwise (PROTOCOL §2).
	DefaultPort = 14791
)

// maxHelloBody is the longest body of a REQ or REP. It fits into the packet size that every path carries, behind the ACK block of a REP,
// because the length of items that later versions add is unknown.
const maxHelloBody = MinPacket - ControlOffset - ackLen - ControlHeaderLen

// maxHelloSent is the longest body of a REQ or REP of ours: with cookie, private data and an item that nobody knows.
const maxHelloSent = HelloLen + (itemHeaderLen + CookieLen) + (itemHeaderLen + MaxPrivateData) + (itemHeaderLen + itemAlign) + (itemHeaderLen + MaxGrease)

// Relations between the sizes above; a violated one does not compile.
const (
	// The CRC ends the base header, and operations and control messages follow at once.
	_ = uint(BaseHeaderLen - CRCOffset - 4)
	_ = uint(CRCOffset + 4 - BaseHeaderLen)
	_ = uint(ControlOffset - BaseHeaderLen)
	_ = uint(BaseHeaderLen - ControlOffset)
	// A REQ with everything in it fits its padded size, so padding never has to be negative.
	_ = uint(maxHelloBody - maxHelloSent)
	// The largest packet fits an IPv4 datagram, and its size fits the 16-bit field of PROBE.
	_ = uint(65535 - ipv4Len - udpLen - MaxPacket)
)
