package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/ndxdp/ndxdp/nd"
)

// Directions of a Result. Empty is from requester to responder, as operations are posted.
const (
	DirectionForth = "forth" // both directions at once: those of the first process
	DirectionBack  = "back"  // those of the other process
)

// MaxConnections bounds the connections of a test. Each is a session of its own, with memory, queues and control channel.
const MaxConnections = 64

// Parallel says how many connections run a test at once, and in which directions.
type Parallel struct {
	Connections int  `json:"connections,omitempty"` // of each direction; 0 is 1
	Both        bool `json:"both,omitempty"`        // both processes are requesters and responders
	Streams     int  `json:"streams,omitempty"`     // of 1 MiB Writes that run beside each test, on more connections of the same adapters; not with Both
}

// Several says whether a test runs more than one connection.
func (p Parallel) Several() bool { return p.Connections > 1 || p.Both }

// Refuses says why a test cannot run like that: a time of one operation among others is not what the tests of latency say they measure.
func (p Parallel) Refuses(t Test) error {
	if p.Several() && t.IsLatency() {
		return fmt.Errorf("%s runs one operation at a time, on one connection: choose tests of bandwidth or rate", t)
	}
	return nil
}

// parallel is one side of a test on several connections: one adapter, and a session for each.
type parallel struct {
	job     Job
	adapter *nd.Adapter
	lines   []*requester // those that this side measures
	servers []*server    // those that it answers
	streams []*requester // those that run beside them
	tell    *teller
}

// runParallel runs the job's specs on several connections. Both sides begin each spec together.
func (j Job) runParallel(ctx context.Context, c Coordinator, sink Sink) (err error) {
	a, err := openAdapter(NDConfig{Local: j.Local.Addr, UDPPort: j.UDPPort, Datapath: j.Datapath, Bulk: j.Bulk, BusyPoll: j.BusyPoll})
	if err != nil {
		return err
	}
	p := &parallel{job: j, adapter: a}
	defer func() { err = errors.Join(err, a.Close()) }()
	n := max(j.Parallel.Connections, 1) + j.Parallel.Streams
	if j.Role == Responder || j.Parallel.Both {
		if err := p.listen(n); err != nil {
			return err
		}
	}
	if err := c.Meet(ctx, "nd listening"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving sync.WaitGroup
	served := make([]error, len(p.servers))
	for i, v := range p.servers {
		serving.Go(func() {
			if served[i] = v.serveOne(ctx, func(string) {}); served[i] != nil {
				cancel(served[i])
			}
		})
	}
	err = p.request(ctx, n, c, sink)
	if err != nil {
		cancel(err)
	}
	serving.Wait()
	for _, v := range p.servers {
		_ = v.listener.Close() // the adapter goes with it
	}
	return errors.Join(append(served, err)...)
}

// listen makes a listener for each session, one ND port after the other.
func (p *parallel) listen(n int) error {
	for i := range n {
		at := netip.AddrPortFrom(p.job.Local.Addr.Addr(), p.job.Local.Addr.Port()+uint16(i))
		l, err := p.adapter.CreateListener()
		if err == nil {
			if err = l.Bind(at); err == nil {
				err = l.Listen(backlog)
			}
		}
		if err != nil {
			return fmt.Errorf("listen on %s: %w", at, err)
		}
		p.servers = append(p.servers, &server{cfg: NDConfig{Local: at}, adapter: p.adapter, listener: l, crowded: true})
	}
	return nil
}

// request runs the specs on the sessions that this side measures, if it measures any.
func (p *parallel) request(ctx context.Context, n int, c Coordinator, sink Sink) error {
	if p.job.Role == Requester || p.job.Parallel.Both {
		for i := range n {
			cfg := NDConfig{
				Local: netip.AddrPortFrom(p.job.Local.Addr.Addr(), 0),
				Peer:  netip.AddrPortFrom(p.job.Peer.Addr.Addr(), p.job.Peer.Addr.Port()+uint16(i)),
			}
			q, err := dialSession(ctx, p.adapter, cfg)
			if err != nil {
				return fmt.Errorf("connect to %s: %w", cfg.Peer, err)
			}
			defer q.close()
			q.crowded = true
			p.lines = append(p.lines, q)
		}
		p.lines, p.streams = p.lines[:n-p.job.Parallel.Streams], p.lines[n-p.job.Parallel.Streams:]
	}
	p.tellAll(sink)
	for _, s := range p.job.Specs {
		s = s.WithDefaults()
		if err := c.Meet(ctx, "nd "+s.String()); err != nil {
			return err
		}
		if p.job.Role == Requester {
			sink.Started(s)
		}
		if err := p.runAll(ctx, s, sink); err != nil {
			return fmt.Errorf("nd %s: %w", s, err)
		}
	}
	for _, q := range slices.Concat(p.lines, p.streams) {
		if err := q.bye(ctx); err != nil {
			return err
		}
	}
	return c.Meet(ctx, "nd done")
}

// runAll runs one spec on all sessions at once.
func (p *parallel) runAll(ctx context.Context, s Spec, sink Sink) error {
	results, errs := make([]*Result, len(p.lines)), make([]error, len(p.lines))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beside *load
	if len(p.streams) > 0 {
		var err error
		if beside, err = startLoad(ctx, p.streams, s, cancel); err != nil {
			return err
		}
	}
	p.tell.during(s, func() {
		var wg sync.WaitGroup
		for i, q := range p.lines {
			wg.Go(func() { results[i], errs[i] = q.run(ctx, s) })
		}
		wg.Wait()
	})
	err := errors.Join(errs...)
	if err != nil || len(results) == 0 {
		if beside != nil {
			cancel(err)
			err = errors.Join(err, beside.stop(nil))
		}
		return err
	}
	all := together(results)
	if beside != nil {
		if err := beside.stop(&all); err != nil {
			return err
		}
	}
	all.Direction = p.direction()
	sink.Result(all)
	return nil
}

// direction is that of what this side measures.
func (p *parallel) direction() string {
	switch {
	case !p.job.Parallel.Both:
		return ""
	case p.job.Role == Responder:
		return DirectionBack
	}
	return DirectionForth
}

// tellAll has all lines tell of their tests together.
func (p *parallel) tellAll(sink Sink) {
	if len(p.lines) == 0 {
		return
	}
	stations := make([]*station, len(p.lines))
	for i, q := range p.lines {
		stations[i] = q.station
	}
	p.tell = tellOf(p.adapter, p.job.Interval, p.direction(), sink, stations...)
}

// together makes one result of those of several connections that ran at once. Rates add up. What counts for the process or the adapter was
// counted by each of them.
func together(results []*Result) Result {
	all := *results[0]
	n := float64(len(results))
	all.Connections = len(results)
	all.Ops, all.Bytes, all.Gbps, all.Mops, all.CPUUS, all.AllocsPerOp, all.Seconds = 0, 0, 0, 0, 0, 0, 0
	for _, r := range results {
		all.Ops, all.Bytes = all.Ops+r.Ops, all.Bytes+r.Bytes
		all.Gbps, all.Mops = all.Gbps+r.Gbps, all.Mops+r.Mops
		all.CPUUS += r.CPUUS / n / n
		all.AllocsPerOp += r.AllocsPerOp / n / n
		all.Seconds = max(all.Seconds, r.Seconds)
		all.RequesterCPU, all.ResponderCPU = max(all.RequesterCPU, r.RequesterCPU), max(all.ResponderCPU, r.ResponderCPU)
		all.Verified = all.Verified && r.Verified
	}
	most := slices.MaxFunc(results, func(a, b *Result) int { return int(a.Retransmits) - int(b.Retransmits) })
	all.Resent, all.Retransmits = most.Resent, most.Retransmits
	return all
}
