package completion

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// RequestKind is the kind of a completed request. The numbers are those of ND2_REQUEST_TYPE, which has no
// FastRegister.
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

// Every kind has a place among the counters.
const _ = uint(trace.NumRequestKinds-1-KindFastRegister) + uint(KindFastRegister+1-trace.NumRequestKinds)

// Result is one completion.
type Result struct {
	QPContext      uint64
	RequestContext uint64
	Bytes          uint32       // of a Receive; undefined otherwise
	Immediate      uint32       // of a Receive, with HasImmediate
	Invalidated    memory.Token // of a Receive: the window or fast-registered region that the message invalidated; zero for none
	Outcome        outcome.Outcome
	Kind           RequestKind
	HasImmediate   bool
	Solicited      bool // of a Receive: the peer asked for a notification
}

// Local says that requests of this kind need no packet.
func (k RequestKind) Local() bool {
	return k == KindBind || k == KindInvalidate || k == KindFastRegister
}
