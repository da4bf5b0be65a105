package ndk

import "github.com/ndxdp/ndxdp/provider"

// Token names registered memory. An SGE carries it to this adapter, and the program sends it to a peer to grant access. It is opaque.
type Token uint32

// SGE is a scatter/gather entry: a slice of registered memory, and the local token of its region, or the privileged token for memory of
// a LAM. If the slice does not lie inside the region, or the token is wrong, the request ends with StatusAccessViolation.
type SGE struct {
	Buffer []byte
	Token  Token
}

// OpFlags are options of a request (NDK_OP_FLAG).
type OpFlags uint32

// Values of OpFlags. They differ from package nd's: two bits have another meaning.
const (
	OpSilentSuccess           OpFlags = 0x1   // no result on success
	OpReadFence               OpFlags = 0x2   // start only when all earlier Reads are done
	OpSendAndSolicitEvent     OpFlags = 0x4   // the peer's result is solicited
	OpAllowRemoteRead         OpFlags = 0x8   // Bind, FastRegister: the peer may read
	OpAllowLocalWrite         OpFlags = 0x10  // FastRegister: requests may write
	OpAllowRemoteWrite        OpFlags = 0x30  // Bind, FastRegister: the peer may write
	OpInline                  OpFlags = 0x40  // Send, Write: copy the bytes now; tokens are ignored
	OpRDMAReadSink            OpFlags = 0x80  // FastRegister: accepted, has no effect
	OpRDMAReadLocalInvalidate OpFlags = 0x100 // Read: ignored, as the adapter's flags say
	OpDefer                   OpFlags = 0x200 // more requests follow at once: start only with a post without this flag, or a post that fails
)

// engine translates flags for the engine.
func (f OpFlags) engine() provider.PostFlags {
	e := provider.PostFlags(f & (OpSilentSuccess | OpReadFence | OpSendAndSolicitEvent | OpAllowRemoteRead | OpDefer))
	if f&(OpAllowRemoteWrite&^OpAllowLocalWrite) != 0 {
		e |= provider.FlagAllowWrite
	}
	if f&OpInline != 0 {
		e |= provider.FlagInline
	}
	return e
}

// OperationType is the type of the request that a result belongs to (NDK_OPERATION_TYPE).
type OperationType uint16

// Types of operations.
const (
	OperationReceive              OperationType = 1
	OperationSend                 OperationType = 2
	OperationFastRegister         OperationType = 4
	OperationBind                 OperationType = 8
	OperationInvalidate           OperationType = 16
	OperationRead                 OperationType = 32
	OperationWrite                OperationType = 64
	OperationReceiveAndInvalidate OperationType = 32769
)

var operations = [...]OperationType{
	provider.KindReceive: OperationReceive, provider.KindSend: OperationSend, provider.KindBind: OperationBind,
	provider.KindInvalidate: OperationInvalidate, provider.KindRead: OperationRead, provider.KindWrite: OperationWrite,
	provider.KindFastRegister: OperationFastRegister,
}

// Result is the completion of one request (NDK_RESULT).
type Result struct {
	Status    Status
	Bytes     uint32 // of a Receive; undefined for other requests
	QPID      uint64
	RequestID uint64
}

// ResultEx is a Result with more details (NDK_RESULT_EX). The provider's own error code is always 0.
type ResultEx struct {
	Result
	Type        OperationType
	Invalidated Token // token that the message invalidated, of OperationReceiveAndInvalidate
}

func putResults(to []Result, from []provider.Result) {
	for i := range from {
		r := &from[i]
		to[i] = Result{Status: statusTable[r.Outcome], Bytes: r.Bytes, QPID: r.QPContext, RequestID: r.RequestContext}
	}
}

func putResultsEx(to []ResultEx, from []provider.Result) {
	for i := range from {
		r := &from[i]
		to[i] = ResultEx{
			Result: Result{Status: statusTable[r.Outcome], Bytes: r.Bytes, QPID: r.QPContext, RequestID: r.RequestContext},
			Type:   operations[r.Kind],
		}
		if r.Invalidated != 0 {
			to[i].Type, to[i].Invalidated = OperationReceiveAndInvalidate, Token(r.Invalidated)
		}
	}
}
