package ndk

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// PD is a protection domain. It makes memory regions, memory windows, shared receive queues and queue pairs, which may be used
// together only within one domain. For a queue pair and its peer, the token of a region of another domain is a wrong token.
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

// Close ends the domain when every object made in it is closed. It never fails. done, which may be nil, is called if and only if
// Close returns StatusPending.
func (p *PD) Close(done CloseCompletion, context any) Status {
	return p.close(func() {}, done, context)
}

// QPConfig describes a queue pair. Depths count outstanding requests, SGE counts entries per request, and InlineSize is in bytes.
// One completion queue may serve both directions.
type QPConfig struct {
	ReceiveCQ, InitiatorCQ         *CQ
	ID                             uint64 // comes back in every result
	ReceiveDepth, InitiatorDepth   int    // ReceiveDepth is not used with a shared receive queue
	MaxReceiveSGE, MaxInitiatorSGE int    // MaxReceiveSGE is not used with one either
	InlineSize                     int
}

// CreateQP makes a queue pair. It accepts at least four entries per request.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a limit beyond the adapter's and for completion
// queues that are nil or another adapter's; StatusInsufficientResources, StatusDeviceRemoved.
func (p *PD) CreateQP(cfg QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	return p.createQP(nil, cfg, p.description(cfg), done, context)
}

// CreateQPWithSRQ makes a queue pair that takes its receives from srq. Statuses are those of CreateQP; srq must be of this domain.
func (p *PD) CreateQPWithSRQ(srq *SRQ, cfg QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	if srq != nil && srq.pd != p {
		srq = nil
	}
	c := p.description(cfg)
	if c.FromShared = true; srq != nil {
		c.Shared = &srq.srq
	}
	return p.createQP(srq, cfg, c, done, context)
}

// description converts the configuration for package verbs.
func (p *PD) description(c QPConfig) verbs.QPConfig {
	return verbs.QPConfig{
		ReceiveCQ: c.ReceiveCQ.inner(), InitiatorCQ: c.InitiatorCQ.inner(), Context: c.ID,
		ReceiveDepth: c.ReceiveDepth, InitiatorDepth: c.InitiatorDepth,
		MaxReceiveSGE: c.MaxReceiveSGE, MaxInitiatorSGE: c.MaxInitiatorSGE, InlineSize: c.InlineSize, Domain: &p.domain,
	}
}

func (p *PD) createQP(srq *SRQ, cfg QPConfig, c verbs.QPConfig, done CreateCompletion[*QP], context any) (*QP, Status) {
	if p.adapter.verbs.CheckQP(&c) != verbs.ArgumentNone {
		return nil, p.adapter.unless(StatusInvalidParameter)
	}
	return create(&p.object, verbs.ObjectQP, done, context, func() (*QP, Status) {
		q := &QP{pd: p}
		parents := []*object{&p.object, &cfg.ReceiveCQ.object, &cfg.InitiatorCQ.object}
		if srq != nil {
			parents = append(parents, &srq.object)
		}
		q.init(p.adapter, verbs.ObjectQP, parents...)
		q.qp = p.adapter.verbs.NewQP(&c)
		return q, StatusSuccess
	})
}
