package lab

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// flow is an application that keeps Writes of one size outstanding.
type flow struct {
	from, to *end
	addr     uint64 // address that it writes to
	token    nd.Token
	size     int
	depth    int
	limit    int          // total number of Writes; 0 for no limit
	done     atomic.Int64 // Writes
	finished time.Time
}

// newFlow connects a flow from a host to host 0.
func (r *rig) newFlow(t testing.TB, host, size, depth, limit int) *flow {
	t.Helper()
	f := &flow{size: size, depth: depth, limit: limit}
	f.from, f.to = r.connect(t, host, size, depth)
	f.addr, f.token = f.to.mr.Address(), f.to.mr.RemoteToken()
	return f
}

// newFlows spreads flows over the senders.
func (r *rig) newFlows(t testing.TB, n, size, depth, limit int) []*flow {
	t.Helper()
	flows := make([]*flow, n)
	for i := range flows {
		flows[i] = r.newFlow(t, 1+i%r.senders, size, depth, limit)
	}
	return flows
}

// run works until ctx ends or the limit is reached, and until all outstanding Writes are complete.
func (f *flow) run(ctx context.Context) error {
	posted, done := 0, 0
	var res [16]nd.Result
	for {
		for posted-done < f.depth && ctx.Err() == nil && (f.limit == 0 || posted < f.limit) {
			if err := f.write(uint64(posted)); err != nil {
				return err
			}
			posted++
		}
		if posted == done {
			f.finished = time.Now()
			return nil
		}
		n, err := f.from.results(res[:])
		if err != nil {
			return err
		}
		done += n
		f.done.Add(int64(n))
	}
}

func (f *flow) write(context uint64) error {
	return f.from.qp.Write(context, []nd.SGE{f.from.mr.SGE(0, f.size)}, f.addr, f.token, 0)
}

// results waits until there is at least one result, and returns an error if a result is no success.
func (e *end) results(res []nd.Result) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		n := e.cq.GetResults(res)
		for _, r := range res[:n] {
			if r.Status != nd.StatusSuccess {
				return n, fmt.Errorf("%s %d: %w", r.Type, r.RequestID, r.Status)
			}
		}
		if n > 0 {
			return n, nil
		}
		if err := e.cq.Notify(ctx, nd.NotifyAny); err != nil {
			return 0, err
		}
	}
}

// running is a set of flows that were started.
type running struct {
	flows  []*flow
	cancel context.CancelFunc
	errs   chan error
}

func start(t testing.TB, flows ...*flow) *running {
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{flows: flows, cancel: cancel, errs: make(chan error, len(flows))}
	for _, f := range flows {
		go func() { r.errs <- f.run(ctx) }()
	}
	return r
}

// wait returns when all flows have reached their limits.
func (r *running) wait(t testing.TB) {
	t.Helper()
	var errs []error
	for range r.flows {
		errs = append(errs, <-r.errs)
	}
	r.cancel()
	must(t, errors.Join(errs...))
}

// stop ends the flows.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	r.wait(t)
}

// moved returns the bytes that each flow transfers while meanwhile runs, and the time that it takes.
func (r *running) moved(meanwhile func()) (bytes []float64, took time.Duration) {
	before := make([]int64, len(r.flows))
	for i, f := range r.flows {
		before[i] = f.done.Load()
	}
	began := time.Now()
	meanwhile()
	took = time.Since(began)
	for i, f := range r.flows {
		bytes = append(bytes, float64(f.done.Load()-before[i])*float64(f.size))
	}
	return bytes, took
}

// jain is Jain's fairness index.
func jain(shares []float64) float64 {
	total, squares := 0.0, 0.0
	for _, s := range shares {
		total += s
		squares += s * s
	}
	return total * total / (float64(len(shares)) * squares)
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
