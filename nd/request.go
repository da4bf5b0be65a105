package nd

// Token names registered memory. An SGE carries it to this adapter, and the program sends it to a peer to grant access. It is opaque.
type Token uint32

// SGE is a scatter/gather entry: a slice of registered memory, and the local token of its region. If the slice does not lie inside the
// region, or the token is wrong, the request ends with ErrAccessViolation.
type SGE struct {
	Buffer []byte
	Token  Token
}

// OpFlags are options of a request (ND_OP_FLAG).
type OpFlags uint32

// Options of Send, Read, Write, Bind and Invalidate.
const (
	OpSilentSuccess OpFlags = 0x1   // no result on success
	OpReadFence     OpFlags = 0x2   // start only when all earlier Reads are done
	OpSolicit       OpFlags = 0x4   // Send: the peer's result is solicited
	OpAllowRead     OpFlags = 0x8   // Bind: the peer may read
	OpAllowWrite    OpFlags = 0x10  // Bind: the peer may write
	OpInline        OpFlags = 0x20  // Send, Write: copy the bytes now; tokens are ignored
	OpDefer         OpFlags = 0x200 // more requests follow at once: start only with a post without this flag, or a post that fails
	// OpAnswered applies to a Send with OpSolicit. It means that the program waits for an answer of the peer rather than for the
	// result. The answer then acknowledges the message, so that no packet wakes the sender for the acknowledgement alone. Without
	// an answer, the result comes up to two milliseconds later. The flag has an effect while at most two requests are outstanding
	// (PROTOCOL §9.2). It is not a flag of ND.
	OpAnswered OpFlags = 0x8000
)

// RequestType is the type of the request that a result belongs to (ND2_REQUEST_TYPE).
type RequestType uint8

// Types of requests.
const (
	RequestReceive    RequestType = 0
	RequestSend       RequestType = 1
	RequestBind       RequestType = 2
	RequestInvalidate RequestType = 3
	RequestRead       RequestType = 4
	RequestWrite      RequestType = 5
)

var requestNames = [...]string{"receive", "send", "bind", "invalidate", "read", "write"}

// String returns the name of the type.
func (t RequestType) String() string {
	if int(t) < len(requestNames) {
		return requestNames[t]
	}
	return "unknown request"
}

// Result is the completion of one request (ND2_RESULT).
type Result struct {
	Status      Status
	Bytes       uint32 // of a Receive; undefined for other requests
	QueuePairID uint64
	RequestID   uint64
	Type        RequestType

	// Of a Receive, and no part of ND2_RESULT: the sender used SendImmediate or WriteImmediate, and its data; the sender used OpSolicit
	// or WriteImmediate.
	HasImmediate bool
	Immediate    uint32
	Solicited    bool
}

// NotifyType is the kind of event that Notify waits for.
type NotifyType uint8

// Types of notifications.
const (
	NotifyErrors    NotifyType = 0 // the completion queue itself failed
	NotifyAny       NotifyType = 1 // any result
	NotifySolicited NotifyType = 2 // the result of a solicited Send, or any failed result
)
