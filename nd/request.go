package nd

import "github.com/ndxdp/ndxdp/provider"

// Token names registered memory: in SGE to this adapter, and carried to a peer to grant it access. It is opaque.
type Token uint32

// SGE is a scatter/gather entry: a slice of registered memory, and the local token of its region. A slice that does not
// lie inside that region ends the request with ErrAccessViolation, as a wrong token does.
type SGE struct {
	Buffer []byte
	Token  Token
}

// OpFlags change how a request is carried out (ND_OP_FLAG).
type OpFlags uint32

// The flags of Send, Read, Write, Bind and Invalidate.
const (
	OpSilentSuccess OpFlags = 0x1   // no result on success
	OpReadFence     OpFlags = 0x2   // start only when all earlier Reads are done
	OpSolicit       OpFlags = 0x4   // Send: the peer's result is a solicited one
	OpAllowRead     OpFlags = 0x8   // Bind: the peer may read
	OpAllowWrite    OpFlags = 0x10  // Bind: the peer may write
	OpInline        OpFlags = 0x20  // Send, Write: copy the bytes now; tokens are ignored
	OpDefer         OpFlags = 0x200 // more requests follow at once: do not start before a post without it, or one that fails
	// OpAnswered, of a Send with OpSolicit, says that this program waits for an answer and not for the result: the answer acknowledges the message, so that no packet wakes
	// the sender for that alone. Without an answer the result comes up to half a millisecond later. It counts while at most two requests are on
	// their way (PROTOCOL §9.2), and is no flag of ND.
	OpAnswered OpFlags = 0x8000
)

// RequestType says what a result is the result of (ND2_REQUEST_TYPE).
type RequestType uint8

// The request types.
const (
	RequestReceive    = RequestType(provider.KindReceive)
	RequestSend       = RequestType(provider.KindSend)
	RequestBind       = RequestType(provider.KindBind)
	RequestInvalidate = RequestType(provider.KindInvalidate)
	RequestRead       = RequestType(provider.KindRead)
	RequestWrite      = RequestType(provider.KindWrite)
)

var requestNames = [...]string{"receive", "send", "bind", "invalidate", "read", "write"}

// String names the type.
func (t RequestType) String() string {
	if int(t) < len(requestNames) {
		return requestNames[t]
	}
	return "unknown request"
}

// Result is the completion of one request (ND2_RESULT).
type Result struct {
	Status           Status
	Bytes            uint32 // of a Receive; otherwise undefined
	QueuePairContext uint64
	RequestContext   uint64
	Type             RequestType
}

// NotifyType is what a completion queue notification waits for.
type NotifyType uint8

// The notification types.
const (
	NotifyErrors    NotifyType = 0 // the completion queue itself failed
	NotifyAny       NotifyType = 1 // any result
	NotifySolicited NotifyType = 2 // the result of a solicited Send, or any failed one
)
