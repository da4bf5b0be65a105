package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// KindConn is the job kind that opens many connections, leaves them idle, and closes them.
const KindConn = "conn"

// Limits of a ConnSpec.
const (
	DefaultConns = 10000
	MaxConns     = 16384            // ephemeral ND ports of an address (ND specification, section 6.1)
	DefaultIdle  = 10 * time.Second // a whole round of keep-alives

	// connWorkers is the number of concurrent connects and of waiting accepts. It is large enough that both sides are always busy,
	// and small enough that a connect does not include a long wait.
	connWorkers = 64
	// restTime is how long a connection must be idle before it frees the state that only data needs. The test waits twice as long.
	restTime = 2 * time.Second
)

// ConnSpec describes one measurement of many connections.
type ConnSpec struct {
	N    int           `json:"n"`
	Idle time.Duration `json:"idle"` // idle time during which CPU time is measured, in nanoseconds
}

func (s ConnSpec) budget() time.Duration {
	return restTime + s.Idle + 6*connectTimeout + time.Duration(s.N)*5*time.Millisecond
}

// ConnSide is the result of one side of a ConnSpec.
type ConnSide struct {
	Role           Role     `json:"role"`
	Connections    int      `json:"connections"`
	Datapath       string   `json:"datapath"`
	ConnectSeconds float64  `json:"connect_seconds"`
	PerSecond      float64  `json:"connects_per_second"`
	ConnectUS      *Latency `json:"connect_us,omitempty"` // requester only: Connect and CompleteConnect, including both applications
	// Memory of heap and stacks: of queues that the application created, and all other memory.
	QueueBytes   float64 `json:"queue_bytes_per_connection"`
	OtherBytes   float64 `json:"other_bytes_per_connection"`
	IdleSeconds  float64 `json:"idle_seconds"`
	IdleCPU      float64 `json:"idle_cpu_percent"` // in percent of one core
	CloseSeconds float64 `json:"close_seconds"`
}

// sane checks that the figures are complete.
func (x *ConnSide) sane() error {
	switch {
	case x.Role != Requester && x.Role != Responder:
		return fmt.Errorf("role %q", x.Role)
	case x.Connections < 1 || x.Datapath == "":
		return fmt.Errorf("the result has %d connections over datapath %q: it needs at least one, and a datapath", x.Connections, x.Datapath)
	case x.ConnectSeconds <= 0 || x.PerSecond <= 0 || x.CloseSeconds <= 0 || x.IdleSeconds <= 0 || x.IdleCPU < 0:
		return errors.New("times must be positive")
	case x.QueueBytes <= 0:
		return errors.New("queue_bytes must be positive")
	case x.Role == Requester && (x.ConnectUS == nil || x.ConnectUS.Min <= 0 || x.ConnectUS.P99 < x.ConnectUS.P50):
		return errors.New("connect_us is missing, or its percentiles are not in ascending order")
	}
	return nil
}

// connRun is the state of one side.
type connRun struct {
	job     Job
	spec    ConnSpec
	meet    Coordinator
	sink    Sink
	adapter *nd.Adapter
	side    ConnSide
	tls     TLS

	cq   *nd.CompletionQueue
	qps  []*nd.QueuePair
	ctrs []*nd.Connector
}

// runConn runs one side of a KindConn job.
func (j Job) runConn(ctx context.Context, c Coordinator, sink Sink) (err error) {
	a, err := openAdapter(NDConfig{Local: j.Local.Addr, UDPPort: j.UDPPort, Datapath: j.Datapath})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	r := &connRun{
		job: j, spec: *j.Conn, meet: c, sink: sink, adapter: a, ctrs: make([]*nd.Connector, j.Conn.N), qps: make([]*nd.QueuePair, j.Conn.N),
		side: ConnSide{Role: j.Role, Connections: j.Conn.N, Datapath: a.Datapath().Datapath.String()},
	}
	if r.tls, err = j.TLS.TLS(); err != nil {
		return err
	}
	if r.cq, err = a.CreateCompletionQueue(sessionCQDepth); err != nil {
		return err
	}
	return r.run(ctx)
}

func (r *connRun) run(ctx context.Context) error {
	r.stage("making %d queue pairs", r.spec.N)
	empty := memoryUse()
	if err := r.makeQueuePairs(); err != nil {
		return err
	}
	queues := memoryUse()
	establish := r.connectAll
	if r.job.Role == Responder {
		l, err := r.listen()
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() // never fails
		establish = func(ctx context.Context) error { return r.acceptAll(ctx, l) }
	}
	if err := r.meet.Meet(ctx, "listening"); err != nil {
		return err
	}
	r.stage("opening %d connections", r.spec.N)
	took, err := timed(ctx, establish)
	if err != nil {
		return err
	}
	r.side.ConnectSeconds, r.side.PerSecond = took.Seconds(), float64(r.spec.N)/took.Seconds()
	if err := r.meet.Meet(ctx, "connected"); err != nil {
		return err
	}
	if err := r.idle(ctx, empty, queues); err != nil {
		return err
	}
	if err := r.meet.Meet(ctx, "idled"); err != nil {
		return err
	}
	r.stage("closing %d connections", r.spec.N)
	if took, err = timed(ctx, r.closeAll); err != nil {
		return err
	}
	r.side.CloseSeconds = took.Seconds()
	r.sink.Connections(r.side)
	return r.meet.Meet(ctx, "closed")
}

// stage reports the next stage; only one side reports.
func (r *connRun) stage(format string, args ...any) {
	if r.job.Role == Requester {
		r.sink.Stage(fmt.Sprintf(format, args...))
	}
}

func timed(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	from := time.Now()
	err := f(ctx)
	return time.Since(from), err
}

// makeQueuePairs makes the smallest usable queue pairs, on one completion queue.
func (r *connRun) makeQueuePairs() error {
	for i := range r.qps {
		var err error
		r.qps[i], err = r.adapter.CreateQueuePair(nd.QueuePairConfig{
			ReceiveCQ: r.cq, InitiatorCQ: r.cq, ID: uint64(i), ReceiveDepth: 1, InitiatorDepth: 1, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
		})
		if err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
	}
	return nil
}

func (r *connRun) listen() (*nd.Listener, error) {
	l, err := r.adapter.CreateListener()
	if err != nil {
		return nil, err
	}
	if err = r.tls.listener(l); err == nil {
		err = l.Bind(r.job.Local.Addr)
	}
	if err == nil {
		err = l.Listen(0)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// connectAll opens all connections, on the requester's side.
func (r *connRun) connectAll(ctx context.Context) error {
	took := make([]time.Duration, r.spec.N)
	err := r.each(ctx, func(ctx context.Context, i int) error {
		from := time.Now()
		k := r.ctrs[i]
		if err := k.Bind(netip.AddrPortFrom(r.job.Local.Addr.Addr(), 0)); err != nil {
			return err
		}
		if err := r.tls.connector(k); err != nil {
			return err
		}
		if err := k.Connect(ctx, r.qps[i], r.job.Peer.Addr, nd.ConnectParams{}); err != nil {
			return err
		}
		if err := k.CompleteConnect(ctx); err != nil {
			return err
		}
		took[i] = time.Since(from)
		return nil
	})
	all := NewHistogram()
	for _, d := range took {
		all.Record(d)
	}
	r.side.ConnectUS = all.Summary(1)
	return err
}

// acceptAll accepts all connections, on the responder's side.
func (r *connRun) acceptAll(ctx context.Context, l *nd.Listener) error {
	return r.each(ctx, func(ctx context.Context, i int) error {
		if err := l.GetConnectionRequest(ctx, r.ctrs[i]); err != nil {
			return err
		}
		return r.ctrs[i].Accept(ctx, r.qps[i], nd.ConnectParams{})
	})
}

// each makes a connector for every connection and calls do for it, in several workers. It stops at the first error.
func (r *connRun) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range connWorkers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < r.spec.N && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if r.ctrs[i], err = r.adapter.CreateConnector(); err == nil {
					err = do(ctx, i)
				}
				if err != nil {
					cancel(fmt.Errorf("connection %d: %w", i, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// idle waits until the connections are idle, and then measures their memory and CPU time.
func (r *connRun) idle(ctx context.Context, empty, queues uint64) error {
	r.stage("idling for %v", restTime+r.spec.Idle)
	if err := sleep(ctx, restTime); err != nil {
		return err
	}
	n := float64(r.spec.N)
	r.side.QueueBytes = (float64(queues) - float64(empty)) / n
	r.side.OtherBytes = (float64(memoryUse()) - float64(queues)) / n
	debug.FreeOSMemory() // else the runtime gives the memory of handshakes back meanwhile
	from, cpu := time.Now(), CPUTime()
	if err := sleep(ctx, r.spec.Idle); err != nil {
		return err
	}
	took := time.Since(from)
	r.side.IdleSeconds, r.side.IdleCPU = took.Seconds(), 100*(CPUTime()-cpu).Seconds()/took.Seconds()
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeAll disconnects all connections. Both sides do this concurrently, in a goroutine for each connection, because a Disconnect
// ends only when the peer disconnects, too.
func (r *connRun) closeAll(ctx context.Context) error {
	errs := make(chan error, r.spec.N)
	for _, k := range r.ctrs {
		go func() {
			err := k.Disconnect(ctx)
			errs <- errors.Join(err, k.Close())
		}()
	}
	var first error
	for range r.ctrs {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	for _, qp := range r.qps {
		_ = qp.Close() // never fails
	}
	return first
}
