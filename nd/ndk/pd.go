package ndk

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// PD is a protection domain: it makes memory regions, memory windows, shared receive queues and queue pairs, which may be used
// together only when they are of one domain. To requests of a queue pair and to its peer, the token of a region
// of another domain is a wrong token.
type PD struct {
	object
	domain provider.Domain
}

// CreatePD makes a protection domain.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInsufficientResources, StatusDeviceRemoved.
func (a *Adapter) CreatePD(done CreateCompletion[*PD], context any) (*PD, Status) {
	return create(&a.root, verbs.ObjectPD, done, context, func() (*PD, Status) {
		p := &PD{}
		p.init(a, verbs.ObjectPD, &a.root)
		return p, StatusSuccess
	})
}

// Close ends the domain when everything made in it is closed. It never fails; done, which may be nil, is called iff it
// returns StatusPending.
func (p *PD) Close(done CloseCompletion, context any) Status {
	return p.close(func() {}, done, context)
}

// QPConfig describes a queue pair. Depths are outstanding requests, SGE counts entries per request, InlineSize is bytes. The
// same completion queue may serve both directions.
type QPConfig struct {
	ReceiveCQ, InitiatorCQ         *CQ
	Context                        uint64 // comes back in every result
	ReceiveDepth, InitiatorDepth   int    // ReceiveDepth is not used with a shared receive queue
	MaxReceiveSGE, MaxInitiatorSGE int    // MaxReceiveSGE neither
	InlineSize                     int
}

// CreateQP makes a queue pair. It takes four entries per request at least.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a limit beyond the adapter's and for completion
// queues that are nil or another adapter's; StatusInsufficientResources, StatusDeviceRemoved.
func (p *PD) CreateQP(cfg QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	return p.createQP(nil, cfg, done, context)
}

// CreateQPWithSRQ makes a queue pair that takes its receives from srq. Statuses are those of CreateQP; srq must be of this domain.
func (p *PD) CreateQPWithSRQ(srq *SRQ, cfg QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	if srq == nil || srq.pd != p {
		return nil, p.adapter.unless(StatusInvalidParameter)
	}
	cfg.ReceiveDepth, cfg.MaxReceiveSGE = 0, 0
	return p.createQP(srq, cfg, done, context)
}

func (p *PD) createQP(srq *SRQ, cfg QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	outside := func(v, limit int) bool { return v < 0 || v > limit }
	switch {
	case cfg.ReceiveCQ == nil || cfg.ReceiveCQ.adapter != p.adapter, cfg.InitiatorCQ == nil || cfg.InitiatorCQ.adapter != p.adapter,
		outside(cfg.ReceiveDepth, verbs.MaxQueueDepth), outside(cfg.InitiatorDepth, verbs.MaxQueueDepth),
		outside(cfg.MaxReceiveSGE, provider.MaxSGE), outside(cfg.MaxInitiatorSGE, provider.MaxSGE), outside(cfg.InlineSize, verbs.MaxInline):
		return nil, p.adapter.unless(StatusInvalidParameter)
	}
	return create(&p.object, verbs.ObjectQP, done, context, func() (*QP, Status) { return p.newQP(srq, cfg), StatusSuccess })
}

func (p *PD) newQP(srq *SRQ, cfg QPConfig) *QP {
	q := &QP{pd: p}
	engine := provider.QPConfig{
		Context: cfg.Context, ReceiveCQ: cfg.ReceiveCQ.cq, InitiatorCQ: cfg.InitiatorCQ.cq,
		ReceiveDepth: cfg.ReceiveDepth, InitiatorDepth: cfg.InitiatorDepth,
		MaxReceiveSGE: max(cfg.MaxReceiveSGE, verbs.SGEFloor), MaxInitiatorSGE: max(cfg.MaxInitiatorSGE, verbs.SGEFloor),
		InlineSize: cfg.InlineSize, Domain: &p.domain,
	}
	parents := []*object{&p.object, &cfg.ReceiveCQ.object, &cfg.InitiatorCQ.object}
	if srq != nil {
		engine.Shared = srq.srq
		parents = append(parents, &srq.object)
	}
	q.init(p.adapter, verbs.ObjectQP, parents...)
	p.adapter.verbs.Do(func(e *provider.Engine) { q.qp = e.NewQP(engine) })
	return q
}
