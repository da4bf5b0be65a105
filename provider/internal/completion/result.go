package completion

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// RequestKind is the kind of a completed request. The values equal ND2_REQUEST_TYPE, which has no FastRegister.
type RequestKind uint8

// The kinds of requests.
const (
	KindReceive RequestKind = iota
	KindSend
	KindBind
	KindInvalidate
	KindRead
	KindWrite
	KindFastRegister
)

// Compile-time check: each kind has a counter.
const _ = uint(trace.NumRequestKinds-1-KindFastRegister) + uint(KindFastRegister+1-trace.NumRequestKinds)

// Result is one completion.
type Result struct {
	QPContext      uint64
	RequestContext uint64
	Bytes          uint32       // of a Receive; otherwise undefined
	Immediate      uint32       // of a Receive with HasImmediate
	Invalidated    memory.Token // of a Receive: the window or fast-registered region that the message invalidated; zero if none
	Outcome        outcome.Outcome
	Kind           RequestKind
	HasImmediate   bool
	Solicited      bool // of a Receive: the peer asked for a notification
}

// Local reports whether requests of this kind need no packet.
func (k RequestKind) Local() bool {
	return k == KindBind || k == KindInvalidate || k == KindFastRegister
}
