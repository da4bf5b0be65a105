package wire

// Opcode is the kind of an operation (PROTOCOL §4) or of a control message (PROTOCOL §5).
type Opcode uint8

// Operations (PROTOCOL §4).
const (
	OpWrite    Opcode = 0x01
	OpSend     Opcode = 0x02
	OpSendInv  Opcode = 0x03
	OpSendImm  Opcode = 0x04
	OpReadReq  Opcode = 0x05
	OpReadResp Opcode = 0x06
	OpTerm     Opcode = 0x07
	OpMore     Opcode = 0x08 // continues a message, in either space
)

// Control messages (PROTOCOL §5).
const (
	CtlPing     Opcode = 0x11
	CtlPong     Opcode = 0x12
	CtlProbe    Opcode = 0x13
	CtlProbeAck Opcode = 0x14

	CtlChallenge Opcode = 0x15
	CtlResponse  Opcode = 0x16
	CtlREQ       Opcode = 0x20
	CtlRETRY     Opcode = 0x21
	CtlPEND      Opcode = 0x22
	CtlREP       Opcode = 0x23
	CtlREPACK    Opcode = 0x24
	CtlRTU       Opcode = 0x25
	CtlREJ       Opcode = 0x26
	CtlDREQ      Opcode = 0x27
	CtlDREP      Opcode = 0x28
	CtlRST       Opcode = 0x29
	CtlSHAKE     Opcode = 0x2a // bytes of a TLS handshake (PROTOCOL §10.2)
)

// opcodeNames is the list of defined opcodes. An opcode without a name is invalid.
var opcodeNames = [CtlSHAKE + 1]string{
	OpWrite: "WRITE", OpSend: "SEND", OpSendInv: "SEND_INV", OpSendImm: "SEND_IMM",
	OpReadReq: "READ_REQ", OpReadResp: "READ_RESP", OpTerm: "TERM", OpMore: "MORE",
	CtlPing: "PING", CtlPong: "PONG", CtlProbe: "PROBE", CtlProbeAck: "PROBE_ACK",
	CtlChallenge: "CHALLENGE", CtlResponse: "RESPONSE",
	CtlREQ: "REQ", CtlRETRY: "RETRY", CtlPEND: "PEND", CtlREP: "REP", CtlREPACK: "REPACK", CtlRTU: "RTU",
	CtlREJ: "REJ", CtlDREQ: "DREQ", CtlDREP: "DREP", CtlRST: "RST",
	CtlSHAKE: "SHAKE",
}

// nameOf returns a name from a table with gaps. All unknown numbers have the same name, so that printing never allocates.
func nameOf(names []string, i int) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return "unknown"
}

// String returns the name of the opcode in PROTOCOL §4 or §5.
func (o Opcode) String() string { return nameOf(opcodeNames[:], int(o)) }

// IsControl reports whether o is a defined control message (PROTOCOL §5).
func (o Opcode) IsControl() bool {
	return o >= CtlPing && int(o) < len(opcodeNames) && opcodeNames[o] != ""
}

// isSend reports whether o is a SEND of any kind.
func (o Opcode) isSend() bool { return o == OpSend || o == OpSendInv || o == OpSendImm }

// Space returns the space of operation o (PROTOCOL §4). It is undefined for MORE and control messages.
func (o Opcode) Space() Space {
	if o == OpReadResp || o == OpTerm {
		return ResponseSpace
	}
	return RequestSpace
}

// Flags are the flags of the base header (PROTOCOL §3.2).
type Flags uint8

// Base header flags (PROTOCOL §3.2).
const (
	FlagAckReq Flags = 0x01
	FlagSpace  Flags = 0x02
	FlagAck    Flags = 0x04 // an ACK block follows the base header
	FlagReport Flags = 0x08 // a REPORT block follows
	FlagEnd    Flags = 0x10 // the segment is the last of its message
	FlagSecure Flags = 0x20 // the packet is sealed (PROTOCOL §10.1)
	FlagLong   Flags = 0x40 // the packet is a whole GSO batch (PROTOCOL §11.2)

	// KnownFlags are the defined flags. All other bits must be zero (PROTOCOL §3.3).
	KnownFlags = FlagAckReq | FlagSpace | FlagAck | FlagReport | FlagEnd | FlagSecure | FlagLong
)

// AckFlags are the flags of an ACK block (PROTOCOL §3.5).
type AckFlags uint8

// Flags of an ACK block (PROTOCOL §3.5).
const (
	AckCE   AckFlags = 0x01 // a congestion mark arrived after the previous packet
	AckAway AckFlags = 0x02 // no goroutine looked for packets when the packet with the largest number arrived

	knownAckFlags = AckCE | AckAway
)

// ReportFlags are the flags of a REPORT block (PROTOCOL §3.6).
type ReportFlags uint8

// Flags of a REPORT block (PROTOCOL §3.6).
const (
	ReportRNR       ReportFlags = 0x01 // a SEND was dropped because there was no receive for it (PROTOCOL §9.4)
	ReportTakenBack ReportFlags = 0x02 // Message, Offset and UpTo are valid

	knownReportFlags = ReportRNR | ReportTakenBack
)

// OpFlags are the flags of an operation header (PROTOCOL §4).
type OpFlags uint8

// Operation flags (PROTOCOL §4).
const (
	OpLast    OpFlags = 0x02 // last segment of its message
	OpSolicit OpFlags = 0x04 // notify the receiver; only on the first segment of a SEND

	knownOpFlags = OpLast | OpSolicit
)

// CtlFlagAbort is the flag of a DREQ that ends the connection abruptly (PROTOCOL §5).
const CtlFlagAbort uint8 = 0x01

// RejectReason is the reason of a REJ (PROTOCOL §5).
type RejectReason uint16

// Reject reasons (PROTOCOL §5).
const (
	RejectConsumer   RejectReason = 1  // the passive application refused
	RejectNoListener RejectReason = 2  // no listener on the ND port
	RejectBacklog    RejectReason = 3  // the listener's backlog is full
	RejectVersion    RejectReason = 4  // no common version
	RejectPolicy     RejectReason = 5  // not allowed by configuration
	RejectDeclined   RejectReason = 6  // the active side declined after the accept
	RejectAbandoned  RejectReason = 7  // the active side gave up
	RejectWithdrawn  RejectReason = 8  // the passive side withdrew its accept
	RejectExists     RejectReason = 9  // a connection between these ports exists
	RejectTLS        RejectReason = 10 // the TLS handshake failed; the private data are the alert (PROTOCOL §10.2)
)

var rejectNames = [...]string{
	RejectConsumer: "consumer", RejectNoListener: "no_listener", RejectBacklog: "backlog", RejectVersion: "version",
	RejectPolicy: "policy", RejectDeclined: "declined", RejectAbandoned: "abandoned", RejectWithdrawn: "withdrawn",
	RejectExists: "exists", RejectTLS: "tls",
}

// String returns the short name of the reason.
func (r RejectReason) String() string { return nameOf(rejectNames[:], int(r)) }

// TermReason is the reason of a TERM (PROTOCOL §4).
type TermReason uint16

// Termination reasons (PROTOCOL §4).
const (
	TermAccess      TermReason = 1  // token, right or bounds of a WRITE
	TermReadAccess  TermReason = 2  // token, right or bounds of a READ
	TermSendTooLong TermReason = 3  // the SEND is longer than the receive
	TermReadLimit   TermReason = 4  // more READs in flight than the inbound read limit
	TermInvalidate  TermReason = 5  // SEND_INV named a token that cannot be invalidated
	TermProtocol    TermReason = 6  // the peer violated the protocol
	TermLocal       TermReason = 7  // a fault of the sender of the TERM
	TermNoReceive   TermReason = 8  // no receive was posted in time for a SEND
	TermFlushed     TermReason = 9  // the sender of the TERM flushed its queue pair
	TermClosed      TermReason = 10 // the sender of the TERM had disconnected
)

var termNames = [...]string{
	TermAccess: "access", TermReadAccess: "read_access", TermSendTooLong: "send_too_long", TermReadLimit: "read_limit",
	TermInvalidate: "invalidate", TermProtocol: "protocol", TermLocal: "local", TermNoReceive: "no_receive",
	TermFlushed: "flushed", TermClosed: "closed",
}

// String returns the short name of the reason.
func (r TermReason) String() string { return nameOf(termNames[:], int(r)) }
