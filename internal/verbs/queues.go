package verbs

import "github.com/ndxdp/ndxdp/provider"

// Argument names the wrong argument of a queue or queue pair. Surfaces number arguments for themselves.
type Argument uint8

// The arguments, in the order in which they are checked.
const (
	ArgumentNone Argument = iota // all arguments are valid
	ArgumentReceiveCQ
	ArgumentInitiatorCQ
	ArgumentSharedQueue
	ArgumentReceiveDepth
	ArgumentInitiatorDepth
	ArgumentReceiveSGE
	ArgumentInitiatorSGE
	ArgumentInline
	ArgumentThreshold
	NumArguments
)

// QPConfig describes a queue pair like provider.QPConfig, in terms of the application's arguments. With a shared receive queue,
// ReceiveDepth and MaxReceiveSGE are neither used nor checked.
type QPConfig struct {
	ReceiveCQ, InitiatorCQ         *CQ // nil if it is not a queue of the adapter
	Context                        uint64
	ReceiveDepth, InitiatorDepth   int
	MaxReceiveSGE, MaxInitiatorSGE int
	InlineSize                     int
	FromShared                     bool
	Shared                         *SRQ             // with FromShared; nil if it is not a queue of the adapter
	Domain                         *provider.Domain // nil for none
}

// CheckQP returns the first wrong argument.
func (a *Adapter) CheckQP(c *QPConfig) Argument {
	outside := func(v, limit int) bool { return v < 0 || v > limit }
	switch {
	case c.ReceiveCQ == nil || c.ReceiveCQ.adapter != a:
		return ArgumentReceiveCQ
	case c.InitiatorCQ == nil || c.InitiatorCQ.adapter != a:
		return ArgumentInitiatorCQ
	case c.FromShared && (c.Shared == nil || c.Shared.adapter != a || c.Shared.closed.Load()):
		return ArgumentSharedQueue
	case !c.FromShared && outside(c.ReceiveDepth, MaxQueueDepth):
		return ArgumentReceiveDepth
	case outside(c.InitiatorDepth, MaxQueueDepth):
		return ArgumentInitiatorDepth
	case !c.FromShared && outside(c.MaxReceiveSGE, provider.MaxSGE):
		return ArgumentReceiveSGE
	case outside(c.MaxInitiatorSGE, provider.MaxSGE):
		return ArgumentInitiatorSGE
	case outside(c.InlineSize, MaxInline):
		return ArgumentInline
	}
	return ArgumentNone
}

// NewQP makes a queue pair. CheckQP has checked c.
func (a *Adapter) NewQP(c *QPConfig) QP {
	cfg := provider.QPConfig{
		Context: c.Context, ReceiveCQ: c.ReceiveCQ.CQ, InitiatorCQ: c.InitiatorCQ.CQ,
		ReceiveDepth: c.ReceiveDepth, InitiatorDepth: c.InitiatorDepth,
		MaxReceiveSGE: max(c.MaxReceiveSGE, SGEFloor), MaxInitiatorSGE: max(c.MaxInitiatorSGE, SGEFloor),
		InlineSize: c.InlineSize, Domain: c.Domain,
	}
	if c.FromShared {
		cfg.Shared = c.Shared.SharedReceiveQueue
	}
	q := QP{adapter: a}
	a.Do(func(e *provider.Engine) { q.QP = e.NewQP(cfg) })
	return q
}
