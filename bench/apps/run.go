package apps

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// program is the two sides of a program.
type program struct {
	// serve answers connections of l until it is stopped. Each connection ends at the deadline at the latest.
	serve func(l net.Listener, s bench.AppSpec, deadline time.Time) (stop func() error)
	// connect opens the connections.
	connect func(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error)
}

// client is the requester's side of a program.
type client struct {
	calls []func() error // one operation on each connection; they may be called concurrently
	flush func() error   // returns when the peer has received everything; nil if an operation includes this
	close func()
}

var programs = map[bench.AppTest]program{
	bench.AppEcho:   {serveEcho, connectEcho},
	bench.AppHTTP:   {serveHTTP, connectHTTP},
	bench.AppGRPC:   {serveGRPC, connectGRPC},
	bench.AppStream: {serveStream, connectStream},
	bench.AppOpen:   {serveOpen, connectOpen},
	bench.AppIdle:   {serveEcho, connectIdle},
}

// Run runs one side of a job of the kind bench.KindApps. It returns when the job is complete, has failed, or ctx ends.
func Run(ctx context.Context, j bench.Job, c bench.Coordinator, sink bench.Sink) (err error) {
	ctx, cancel := context.WithTimeout(ctx, j.Budget())
	defer cancel()
	t, err := open(j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for _, s := range j.Apps.Specs {
		p, ok := programs[s.Test]
		if !ok {
			return fmt.Errorf("program %q is unknown", s.Test)
		}
		r := run{t: t, spec: s, meet: c, side: bench.AppSide{Role: j.Role, Spec: s, Datapath: t.datapath}}
		do := r.request
		if j.Role == bench.Responder {
			do = r.respond
		}
		if err := do(ctx, p); err != nil {
			return fmt.Errorf("%s over %s: %w", s, j.Apps.Over, err)
		}
		sink.App(r.side)
		t.nextPort()
	}
	return nil
}

// run runs one side of one spec.
type run struct {
	t    *transport
	spec bench.AppSpec
	meet bench.Coordinator
	side bench.AppSide
}

// at waits until both sides have reached a point.
func (r *run) at(ctx context.Context, point string) error {
	return r.meet.Meet(ctx, r.spec.String()+" "+point)
}

// measured calls do between two points and measures the processor time of this process.
func (r *run) measured(ctx context.Context, do func() error) error {
	if err := r.at(ctx, "measures"); err != nil {
		return err
	}
	from, cpu := time.Now(), bench.CPUTime()
	if err := do(); err != nil {
		return err
	}
	if err := r.at(ctx, "measured"); err != nil {
		return err
	}
	r.side.CPU, r.side.CPUElapsed = bench.CPUTime()-cpu, time.Since(from)
	return nil
}

func (r *run) respond(ctx context.Context, p program) (err error) {
	l, err := r.t.listen(ctx, "tcp", r.t.local.String())
	if err != nil {
		return err
	}
	stop := p.serve(l, r.spec, time.Now().Add(r.spec.Budget()))
	defer func() { err = errors.Join(err, stop()) }()
	if err := r.at(ctx, "listens"); err != nil {
		return err
	}
	if err := r.measured(ctx, func() error { return nil }); err != nil {
		return err
	}
	return r.at(ctx, "closed")
}

func (r *run) request(ctx context.Context, p program) error {
	if err := r.at(ctx, "listens"); err != nil {
		return err
	}
	c, err := p.connect(ctx, r.t, r.spec, time.Now().Add(r.spec.Budget()))
	if err != nil {
		return err
	}
	closeOnce := sync.OnceFunc(c.close)
	defer closeOnce()
	defer context.AfterFunc(ctx, closeOnce)() // ends all calls
	if _, err := c.runFor(ctx, r.spec.WarmUp()); err != nil {
		return err
	}
	if err := r.measured(ctx, func() error { return r.count(ctx, c) }); err != nil {
		return err
	}
	closeOnce()
	return r.at(ctx, "closed")
}

// count runs the program for the measured time.
func (r *run) count(ctx context.Context, c *client) error {
	from := time.Now()
	all, err := c.runFor(ctx, r.spec.Duration)
	if err != nil {
		return err
	}
	r.side.Seconds, r.side.Ops = time.Since(from).Seconds(), all.Count()
	r.side.Bytes = r.side.Ops * uint64(r.spec.Size)
	if r.spec.Test != bench.AppStream {
		r.side.LatUS = all.Summary(1)
	}
	return nil
}

// runFor repeats the client's operations for d, and each at least once.
func (c *client) runFor(ctx context.Context, d time.Duration) (*bench.Histogram, error) {
	all := bench.NewHistogram()
	if len(c.calls) == 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return all, nil
	}
	each := make([]*bench.Histogram, len(c.calls))
	errs := make([]error, len(c.calls))
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i, call := range c.calls {
		each[i] = bench.NewHistogram()
		wg.Go(func() { errs[i] = repeat(call, end, each[i]) })
	}
	wg.Wait()
	for i, h := range each {
		if errs[i] != nil {
			return nil, fmt.Errorf("connection %d: %w", i, errs[i])
		}
		all.Merge(h)
	}
	if c.flush != nil {
		return all, c.flush()
	}
	return all, nil
}

func repeat(call func() error, end time.Time, h *bench.Histogram) error {
	for last := time.Now(); ; {
		if err := call(); err != nil {
			return err
		}
		now := time.Now()
		h.Record(now.Sub(last))
		if last = now; now.After(end) {
			return nil
		}
	}
}
