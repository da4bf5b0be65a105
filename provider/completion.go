package provider

import "github.com/ndxdp/ndxdp/provider/internal/completion"

// The names of package completion that upper layers use.
type (
	// RequestKind says what a completed request was.
	RequestKind = completion.RequestKind
	// Result is one completion.
	Result = completion.Result
	// NotifyLevel is what a notification waits for.
	NotifyLevel = completion.NotifyLevel
	// CQ is a completion queue.
	CQ = completion.Queue
)

// The kinds of requests, and the levels of notifications.
const (
	KindReceive      = completion.KindReceive
	KindSend         = completion.KindSend
	KindBind         = completion.KindBind
	KindInvalidate   = completion.KindInvalidate
	KindRead         = completion.KindRead
	KindWrite        = completion.KindWrite
	KindFastRegister = completion.KindFastRegister
	NotifyErrors     = completion.NotifyErrors
	NotifySolicited  = completion.NotifySolicited
	NotifyAny        = completion.NotifyAny
)

// NewCQ makes a completion queue of at least depth results.
func NewCQ(depth int) *CQ { return completion.NewQueue(depth) }

// Moderate starts the time of notifications that were held back, for the caller of Arm; the engine does it itself for results
// that it publishes.
func (e *Engine) Moderate(q *CQ) { e.results.Moderate(q, e.now) }
