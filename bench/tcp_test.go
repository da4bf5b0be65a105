package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// meeting is a Coordinator for two jobs in one process.
type meeting struct {
	mu      sync.Mutex
	waiting chan struct{} // nil if no side waits
	point   string
}

func (m *meeting) Meet(ctx context.Context, point string) error {
	m.mu.Lock()
	if m.waiting != nil {
		defer m.mu.Unlock()
		if m.point != point {
			return errors.New("lost step: " + m.point + " and " + point)
		}
		close(m.waiting)
		m.waiting = nil
		return nil
	}
	m.waiting, m.point = make(chan struct{}), point
	done := m.waiting
	m.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collector is a Sink that stores the results.
type collector struct {
	mu        sync.Mutex
	started   int
	results   []Result
	intervals []Interval
	baselines []Baseline
	conns     []ConnSide
	captures  []Captured
	stages    []string
}

func (c *collector) Started(Spec) { c.mu.Lock(); c.started++; c.mu.Unlock() }
func (c *collector) Result(r Result) {
	c.mu.Lock()
	c.results = append(c.results, r)
	c.mu.Unlock()
}

func (c *collector) Interval(x Interval) {
	c.mu.Lock()
	c.intervals = append(c.intervals, x)
	c.mu.Unlock()
}

func (c *collector) Baseline(b Baseline) {
	c.mu.Lock()
	c.baselines = append(c.baselines, b)
	c.mu.Unlock()
}

func (c *collector) Stage(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stages = append(c.stages, what)
}
func (*collector) App(AppSide) {}

func (c *collector) Captured(s Captured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.captures = append(c.captures, s)
}

func (c *collector) Connections(s ConnSide) {
	c.mu.Lock()
	c.conns = append(c.conns, s)
	c.mu.Unlock()
}

// runBoth runs both roles of a job, each through its own wrapper (a namespace, or nothing).
func runBoth(t *testing.T, job Job, requester, responder func(func() error) error) *collector {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, m := &collector{}, &meeting{}
	other := job
	job.Role, other.Role = Requester, Responder
	other.Local, other.Peer = job.Peer, job.Local
	failed := make(chan error, 2)
	run := func(j Job, in func(func() error) error) {
		err := in(func() error { return j.Run(ctx, m, c) })
		if err != nil {
			cancel() // the peer side must not wait for this side
		}
		failed <- err
	}
	go run(other, responder)
	go run(job, requester)
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	return c
}

func here(fn func() error) error { return fn() }

func TestTCPOnLoopback(t *testing.T) {
	own, err := NewIdentity()
	testhelp.Must(t, err)
	for _, kind := range []string{KindTCP, KindTCPSpin, KindTCPBlock, KindTCPTLS} {
		t.Run(kind, func(t *testing.T) {
			end := End{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), netlabtest.FreePort(t))}
			job := Job{Kind: kind, Local: end, Peer: end, TLS: own, Specs: []Spec{
				{Test: WriteLat, Duration: 20 * time.Millisecond},
				{Test: WriteLat, Size: 3000, Duration: 20 * time.Millisecond},
				{Test: WriteBW, Duration: 20 * time.Millisecond},
			}}
			got := runBoth(t, job, here, here)
			if len(got.baselines) != 3 || got.started != 3 {
				t.Fatalf("%d baselines of %d started, want 3: %+v", len(got.baselines), got.started, got.baselines)
			}
			for _, b := range got.baselines {
				if b.CPUUS <= 0 {
					t.Errorf("%s %d took no processor time", b.Test, b.Size)
				}
				if b.Kind != kind {
					t.Errorf("kind is %q, want %q", b.Kind, kind)
				}
				if err := sane(b.Ops, b.Bytes, b.Seconds, b.Gbps, b.Mops, b.Test, b.LatUS); err != nil {
					t.Errorf("%s %d: %v", b.Test, b.Size, err)
				}
			}
		})
	}
}

// TestBlockedTCPEnds: a system call that waits for a silent peer ends with the context of its job.
func TestBlockedTCPEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := End{Addr: netip.MustParseAddrPort(l.Addr().String())}
	job := Job{Kind: KindTCPBlock, Role: Requester, Local: end, Peer: end, Specs: []Spec{{Test: SendLat, Duration: time.Hour}}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- job.Run(ctx, &meeting{waiting: make(chan struct{}), point: "tcp_block send_lat 64 B"}, &collector{})
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, DefaultLatSize)); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the job succeeded")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the job still waits")
	}
}

func TestTCPPeerAbsent(t *testing.T) {
	end := End{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), netlabtest.FreePort(t))}
	job := Job{Kind: KindTCP, Role: Requester, Local: end, Peer: end, Specs: []Spec{{Test: WriteLat}}}
	alone := &meeting{waiting: make(chan struct{}), point: "tcp write_lat 64 B"}
	if err := job.Run(t.Context(), alone, &collector{}); err == nil {
		t.Error("a job without a peer succeeds")
	}
}
