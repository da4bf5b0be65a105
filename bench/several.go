package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// A client that wants several connections, or wants the server to measure, says so on its control channel. The sessions use
// separate ND ports, and each spec is announced on the control channel:
//
//	client                                 server
//	plan {how, its ND ports}     ->        listens
//	                             <-        plan {its ND ports}
//	opens its sessions           <->       opens its sessions
//	next {spec}                  ->
//	... both measure what is theirs ...
//	                             <-        started, told, measured: what the server finds out
//	                             <-        over
//	bye                          ->
type planMessage struct {
	How      Parallel      `json:"how,omitzero"`
	Reverse  bool          `json:"reverse,omitempty"` // the server measures
	Interval time.Duration `json:"interval,omitempty"`
	Ports    []uint16      `json:"ports,omitempty"` // of the sender's listeners, one for each session that it serves
}

// check refuses an invalid plan.
func (m *planMessage) check() error {
	p := m.How
	switch {
	case p.Connections < 0 || p.Streams < 0 || p.Connections > MaxConnections || p.Streams > MaxConnections || p.sessions() > MaxConnections:
		return fmt.Errorf("the plan has %d connections and %d streams: at most %d in all", p.Connections, p.Streams, MaxConnections)
	case p.Both && (p.Streams > 0 || m.Reverse):
		return errors.New("the plan has both directions at once, and also streams or the reverse direction: choose one of them")
	case m.Interval < 0 || m.Interval > 0 && m.Interval < MinInterval:
		return fmt.Errorf("the plan has an interval of %v: choose at least %v, or 0", m.Interval, MinInterval)
	}
	return checkPorts(m.Ports, p, m.Reverse || p.Both)
}

// checkPorts returns an error unless the ports match the sessions that their sender serves.
func checkPorts(ports []uint16, p Parallel, answers bool) error {
	want := 0
	if answers {
		want = p.sessions()
	}
	if len(ports) != want || slices.Contains(ports, 0) {
		return fmt.Errorf("the peer process sent the ND ports %d: it must send one port, not 0, for each of %d sessions", ports, want)
	}
	return nil
}

// severally runs the specs with cfg.Parallel and cfg.Reverse. The session is only used for coordination.
func (q *requester) severally(ctx context.Context, specs []Spec, sink testSink) error {
	cfg := &q.cfg
	p := &parallel{adapter: q.adapter, local: cfg.Local.Addr(), role: Requester, how: cfg.Parallel, tls: cfg.TLS, interval: cfg.Interval, sink: sink}
	plan := &planMessage{How: cfg.Parallel, Reverse: cfg.Reverse}
	if cfg.Reverse {
		p.role, plan.Interval = Responder, cfg.Interval
	}
	var err error
	if plan.Ports, err = p.listen(make([]uint16, p.how.sessions())); err != nil {
		return err
	}
	return p.serveDuring(ctx, func(ctx context.Context) error {
		if err := q.control.send(ctx, controlMessage{Plan: plan}); err != nil {
			return err
		}
		m, err := q.control.expect(ctx)
		if err != nil {
			return err
		}
		if m.Plan == nil {
			return errors.New("the server did not answer the plan with its own plan")
		}
		if err := checkPorts(m.Plan.Ports, p.how, p.measures()); err != nil {
			return err
		}
		if err := p.dial(ctx, cfg.Peer.Addr(), m.Plan.Ports); err != nil {
			return err
		}
		defer p.close()
		for _, s := range specs {
			s = s.WithDefaults()
			if err := q.runNext(ctx, p, s); err != nil {
				return fmt.Errorf("nd %s: %w", s, err)
			}
		}
		return errors.Join(p.bye(ctx), q.bye(ctx))
	})
}

// runNext runs a spec together with the server, and receives the server's results.
func (q *requester) runNext(ctx context.Context, p *parallel, s Spec) error {
	if err := p.how.Refuses(s.Test); err != nil {
		return err
	}
	if err := q.control.send(ctx, controlMessage{Next: &s}); err != nil {
		return err
	}
	if err := p.runAll(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.budget()+connectTimeout)
	defer cancel()
	for {
		m, err := q.control.recv(ctx)
		switch {
		case err != nil:
			return err
		case m.Over:
			return nil
		case m.Started != nil:
			p.sink.Started(*m.Started)
		case m.Told != nil:
			p.sink.Interval(*m.Told)
		case m.Measured != nil:
			p.sink.Result(*m.Measured)
		default:
			return errors.New("the server sent a control message that is no measurement")
		}
	}
}

// serveSeverally runs the server's side of severally, until the client ends it.
func (v *server) serveSeverally(ctx context.Context, s *station, peer netip.Addr, plan planMessage) error {
	if err := plan.check(); err != nil {
		return err
	}
	told := &relay{ctx: ctx, to: s.control}
	p := &parallel{adapter: v.adapter, local: v.cfg.Local.Addr(), role: Responder, how: plan.How, tls: v.cfg.TLS, interval: plan.Interval, sink: told}
	if plan.Reverse {
		p.role = Requester
	}
	ports, err := p.listen(make([]uint16, p.how.sessions()))
	if err != nil {
		return err
	}
	return p.serveDuring(ctx, func(ctx context.Context) error {
		if err := s.control.send(ctx, controlMessage{Plan: &planMessage{Ports: ports}}); err != nil {
			return err
		}
		if err := p.dial(ctx, peer, plan.Ports); err != nil {
			return err
		}
		defer p.close()
		for {
			m, err := s.control.recv(ctx)
			switch {
			case err != nil:
				return err
			case m.Bye:
				return p.bye(ctx)
			case m.Next == nil:
				return errors.New("a control message is neither the next spec nor bye")
			}
			spec := m.Next.WithDefaults()
			if err := errors.Join(spec.Validate(), p.how.Refuses(spec.Test)); err != nil {
				return err
			}
			if err := p.runAll(ctx, spec); err != nil {
				return err
			}
			if err := errors.Join(told.err, s.control.send(ctx, controlMessage{Over: true})); err != nil {
				return err
			}
		}
	})
}

// relay sends the server's results to the client. Its methods are called one at a time, and never while another goroutine uses the
// channel.
type relay struct {
	ctx context.Context
	to  *control
	err error // the first error
}

func (r *relay) Started(s Spec)      { r.send(controlMessage{Started: &s}) }
func (r *relay) Result(x Result)     { r.send(controlMessage{Measured: &x}) }
func (r *relay) Interval(x Interval) { r.send(controlMessage{Told: &x}) }

func (r *relay) send(m controlMessage) {
	if r.err == nil {
		r.err = r.to.send(r.ctx, m)
	}
}
