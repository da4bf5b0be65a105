package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Directions of a Result. Empty is from requester to responder.
const (
	DirectionForth = "forth" // both directions at once: from the first process
	DirectionBack  = "back"  // both directions at once: from the second process
)

// MaxConnections bounds the connections of a test. Each is a separate session, with memory, queues and control channel.
const MaxConnections = 64

// Parallel is the number of connections that run a test concurrently, and their directions.
type Parallel struct {
	Connections int  `json:"connections,omitempty"` // of each direction; 0 is 1
	Both        bool `json:"both,omitempty"`        // both processes are requesters and responders
	Streams     int  `json:"streams,omitempty"`     // streams of 1 MiB Writes beside each test, on further connections of the same adapters; not with Both
}

// Several reports whether a test runs more than one connection.
func (p Parallel) Several() bool { return p.Connections > 1 || p.Both }

// Refuses returns the reason why a test cannot run in this way: latency of concurrent operations is not what latency tests measure.
func (p Parallel) Refuses(t Test) error {
	if p.Several() && t.IsLatency() {
		return fmt.Errorf("%s runs one operation at a time, on one connection: choose tests of bandwidth or rate", t)
	}
	return nil
}

// sessions returns the number of sessions of a test.
func (p Parallel) sessions() int { return max(p.Connections, 1) + p.Streams }

// testSink receives results of tests as they arise.
type testSink interface {
	Started(Spec)
	Result(Result)
	Interval(Interval)
}

// parallel is one side of tests on several connections: one adapter with a session for each.
type parallel struct {
	adapter  *nd.Adapter
	local    netip.Addr
	role     Role
	how      Parallel
	tls      TLS
	interval time.Duration // as in NDConfig
	sink     testSink

	lines   []*requester // connections measured by this side
	servers []*server    // connections served by this side
	streams []*requester // streams beside the measured connections
	tell    *teller
}

// measures and answers report what this side does.
func (p *parallel) measures() bool { return p.role == Requester || p.how.Both }
func (p *parallel) answers() bool  { return p.role == Responder || p.how.Both }

// runParallel runs the job's specs on several connections. Both sides begin each spec together.
func (j Job) runParallel(ctx context.Context, c Coordinator, sink Sink) (err error) {
	a, err := openAdapter(NDConfig{Local: j.Local.Addr, UDPPort: j.UDPPort, Datapath: j.Datapath, Bulk: j.Bulk})
	if err != nil {
		return err
	}
	rec, err := record(a, j.PCAP, j.Snap)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	defer func() { err = errors.Join(err, a.Close(), rec.stop(sink.Captured)) }()
	secure, err := j.TLS.TLS()
	if err != nil {
		return err
	}
	p := &parallel{adapter: a, local: j.Local.Addr.Addr(), role: j.Role, how: j.Parallel, tls: secure, interval: j.Interval, sink: sink}
	if _, err := p.listen(portsFrom(j.Local.Addr.Port(), p.how.sessions())); err != nil {
		return err
	}
	if err := c.Meet(ctx, "nd listening"); err != nil {
		return err
	}
	return p.serveDuring(ctx, func(ctx context.Context) error {
		if err := p.dial(ctx, j.Peer.Addr.Addr(), portsFrom(j.Peer.Addr.Port(), p.how.sessions())); err != nil {
			return err
		}
		defer p.close()
		for _, s := range j.Specs {
			s = s.WithDefaults()
			if err := c.Meet(ctx, "nd "+s.String()); err != nil {
				return err
			}
			if err := p.runAll(ctx, s); err != nil {
				return fmt.Errorf("nd %s: %w", s, err)
			}
		}
		if err := p.bye(ctx); err != nil {
			return err
		}
		return c.Meet(ctx, "nd done")
	})
}

// portsFrom returns n consecutive ND ports.
func portsFrom(first uint16, n int) []uint16 {
	ports := make([]uint16, n)
	for i := range ports {
		ports[i] = first + uint16(i)
	}
	return ports
}

// listen makes a listener for each session that this side serves, and returns their ports. A zero port selects a free one.
func (p *parallel) listen(ports []uint16) (at []uint16, err error) {
	if !p.answers() {
		return nil, nil
	}
	for _, port := range ports {
		want := netip.AddrPortFrom(p.local, port)
		l, err := p.adapter.CreateListener()
		if err == nil {
			if err = p.tls.listener(l); err == nil {
				err = l.Bind(want)
			}
			if err == nil {
				err = l.Listen(backlog)
			}
		}
		if err == nil {
			want, err = l.LocalAddress()
		}
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", want, err)
		}
		at = append(at, want.Port())
		p.servers = append(p.servers, &server{cfg: NDConfig{Local: want, TLS: p.tls}, adapter: p.adapter, listener: l, crowded: true})
	}
	return at, nil
}

// errUnended is the cause of sessions that the peer does not end although it has reported the end of all.
var errUnended = fmt.Errorf("the peer process did not end its sessions within %v", connectTimeout)

// serveDuring runs do while it serves this side's sessions, and waits for the end of the sessions. If a session fails, the context
// of do ends.
func (p *parallel) serveDuring(ctx context.Context, do func(context.Context) error) error {
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
	err := do(ctx)
	if err != nil {
		cancel(err)
	}
	late := time.AfterFunc(connectTimeout, func() { cancel(errUnended) })
	serving.Wait()
	late.Stop()
	for _, v := range p.servers {
		_ = v.listener.Close() // the adapter closes it, too
	}
	return errors.Join(append(served, err)...)
}

// dial opens the sessions that this side measures, at ND ports of the peer. close closes them.
func (p *parallel) dial(ctx context.Context, peer netip.Addr, ports []uint16) error {
	if !p.measures() {
		return nil
	}
	for _, port := range ports {
		cfg := NDConfig{Local: netip.AddrPortFrom(p.local, 0), Peer: netip.AddrPortFrom(peer, port), TLS: p.tls}
		q, err := dialSession(ctx, p.adapter, cfg)
		if err != nil {
			p.close()
			return fmt.Errorf("connect to %s: %w", cfg.Peer, err)
		}
		q.crowded = true
		p.lines = append(p.lines, q)
	}
	alone := len(ports) - p.how.Streams
	p.lines, p.streams = p.lines[:alone], p.lines[alone:]
	stations := make([]*station, len(p.lines))
	for i, q := range p.lines {
		stations[i] = q.station
	}
	p.tell = tellOf(p.adapter, p.interval, p.direction(), p.sink, stations...)
	return nil
}

// close closes the sessions of dial.
func (p *parallel) close() {
	for _, q := range slices.Concat(p.lines, p.streams) {
		q.close()
	}
}

// bye ends the sessions of dial.
func (p *parallel) bye(ctx context.Context) error {
	for _, q := range slices.Concat(p.lines, p.streams) {
		if err := q.bye(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runAll runs one spec concurrently on all sessions that this side measures.
func (p *parallel) runAll(ctx context.Context, s Spec) error {
	if p.role == Requester {
		p.sink.Started(s)
	}
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
	p.sink.Result(all)
	return nil
}

// direction returns the direction that this side measures.
func (p *parallel) direction() string {
	switch {
	case !p.how.Both:
		return ""
	case p.role == Responder:
		return DirectionBack
	}
	return DirectionForth
}

// together joins the results of concurrent connections. Rates add up. Counters of the process or the adapter were recorded by each
// connection relative to its own operations, whose numbers may differ much.
func together(results []*Result) Result {
	all := *results[0]
	all.Connections = len(results)
	all.Ops, all.Bytes, all.Gbps, all.Mops, all.Seconds = 0, 0, 0, 0, 0
	cpu, allocs := 0.0, 0.0
	for _, r := range results {
		all.Ops, all.Bytes = all.Ops+r.Ops, all.Bytes+r.Bytes
		all.Gbps, all.Mops = all.Gbps+r.Gbps, all.Mops+r.Mops
		cpu, allocs = cpu+r.CPUUS*float64(r.Ops), allocs+r.AllocsPerOp*float64(r.Ops)
		all.Seconds = max(all.Seconds, r.Seconds)
		all.RequesterCPU, all.ResponderCPU = max(all.RequesterCPU, r.RequesterCPU), max(all.ResponderCPU, r.ResponderCPU)
		all.Verified = all.Verified && r.Verified
	}
	counted := float64(len(results)) * float64(max(all.Ops, 1)) // each connection counted the same events
	all.CPUUS, all.AllocsPerOp = cpu/counted, allocs/counted
	most := slices.MaxFunc(results, func(a, b *Result) int { return int(a.Retransmits) - int(b.Retransmits) })
	all.Resent, all.Retransmits = most.Resent, most.Retransmits
	return all
}
