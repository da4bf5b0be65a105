package tlshake

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// MaxWaiting is how many handshakes wait for a goroutine at most. Give refuses bytes of others, and the peer sends them again.
	MaxWaiting = 256
	// maxInput bounds the bytes that wait for one Handshake. A peer cannot exceed it with honest bytes, which are bounded before.
	maxInput = 128 << 10
	// slowAfter is how long a handshake may run before the Pool runs another one in addition. A function of the application may wait for the
	// network, or for another handshake. The computation takes less, also on a busy machine.
	slowAfter = 50 * time.Millisecond
	// maxSlow is how many handshakes run in addition at most, so that a flood of handshakes does not take the processors from the engines.
	maxSlow = 32
)

// Pool runs handshakes. The zero value is not usable; see New.
type Pool struct {
	mu      sync.Mutex
	ready   []*Handshake // in the order of their becoming ready
	waiting int          // of ready: handshakes that are not closed
	running int          // goroutines that count against workers
	workers int
	slow    int        // handshakes that run for longer than slowAfter, and do not count against workers
	idle    *sync.Cond // no goroutine runs and none is ready
	spawned int        // goroutines, with goroutines that were given up
}

// New returns a Pool that runs at most workers handshakes at a time, or as many as processors if workers is zero, and slow ones in
// addition. It has no goroutine while there is no work. While handshakes keep two processors busy, an echo over another connection takes
// 0.5 ms, and over TCP 3 ms.
func New(workers int) *Pool {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	p := &Pool{workers: workers}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// Handshake is one side of a TLS handshake.
type Handshake struct {
	pool    *Pool
	conn    *tls.QUICConn // belongs to the goroutine that runs the Handshake; nil when it is over
	cancel  context.CancelFunc
	ctx     context.Context
	deliver func(*shaker.Step)

	// Guarded by pool.mu.
	input   []input
	bytes   int  // in input
	queued  bool // in pool.ready
	running bool
	started bool
	closed  bool
	over    bool        // conn is nil
	givenUp bool        // closed while running, or slow: its goroutine does not count any more
	slow    bool        // counted in pool.slow
	watch   *time.Timer // of the present run
}

// input is handshake bytes of the peer.
type input struct {
	level tls.QUICEncryptionLevel
	bytes []byte
}

// Client returns a Shaker for connectors, with a configuration of ClientConfig.
func (p *Pool) Client(cfg *tls.Config) shaker.Shaker { return client{p, cfg} }

// Server returns a Shaker for listeners, with a configuration of ServerConfig. Functions of the configuration see the addresses of
// both ends.
func (p *Pool) Server(cfg *tls.Config) shaker.Shaker { return server{p, cfg} }

type client struct {
	pool *Pool
	cfg  *tls.Config
}

// Begin implements shaker.Shaker.
func (c client) Begin(_, remote wire.Endpoint, params []byte, deliver func(*shaker.Step)) shaker.Handshake {
	cfg := c.cfg
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = remote.AddrPort().Addr().String()
	}
	h := c.pool.handshake(tls.QUICClient(&tls.QUICConfig{TLSConfig: cfg}), params, deliver)
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.push(h)
	return h
}

type server struct {
	pool *Pool
	cfg  *tls.Config
}

// Begin implements shaker.Shaker. The first Give starts the handshake.
func (s server) Begin(local, remote wire.Endpoint, params []byte, deliver func(*shaker.Step)) shaker.Handshake {
	cfg := withAddresses(s.cfg, net.UDPAddrFromAddrPort(local.AddrPort()), net.UDPAddrFromAddrPort(remote.AddrPort()))
	return s.pool.handshake(tls.QUICServer(&tls.QUICConfig{TLSConfig: cfg}), params, deliver)
}

func (p *Pool) handshake(conn *tls.QUICConn, params []byte, deliver func(*shaker.Step)) *Handshake {
	conn.SetTransportParameters(params)
	h := &Handshake{pool: p, conn: conn, deliver: deliver}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Give implements shaker.Handshake. It returns false if MaxWaiting handshakes wait, or if too many bytes wait. Bytes for a closed or
// finished Handshake are ignored.
func (h *Handshake) Give(level wire.ShakeLevel, b []byte) bool {
	p := h.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case h.closed || h.over:
		return true
	case h.bytes+len(b) > maxInput, !h.queued && !h.running && p.waiting >= MaxWaiting:
		return false
	}
	h.input = append(h.input, input{tls.QUICEncryptionLevel(level), append([]byte(nil), b...)})
	h.bytes += len(b)
	if !h.queued && !h.running {
		p.push(h)
	}
	return true
}

// Close ends the handshake, at any time and from any goroutine. It does not wait: deliver may be called once more,
// also shortly after Close. Close may be called more than once.
func (h *Handshake) Close() {
	p := h.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	h.cancel()
	switch {
	case h.queued:
		p.waiting--
	case h.running: // perhaps in a function of the application that does not return
		p.giveUp(h)
	case !h.over:
		p.push(h)
	}
}

// Wait returns when no goroutine of the Pool is left: nothing is to be done for any handshake, and functions of the application have
// returned.
func (p *Pool) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.spawned > 0 {
		p.idle.Wait()
	}
}

// push makes a handshake ready, and starts a goroutine if there may be another.
func (p *Pool) push(h *Handshake) {
	h.queued = true
	p.ready = append(p.ready, h)
	if !h.closed {
		p.waiting++
	}
	p.start()
}

func (p *Pool) start() {
	if len(p.ready) > 0 && p.running < p.workers {
		p.running++
		p.spawned++
		go p.run()
	}
}

// run runs handshakes until none is ready.
func (p *Pool) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) > 0 {
		h := p.ready[0]
		p.ready = p.ready[1:]
		if !p.runOne(h) {
			p.ended()
			return
		}
		p.mu.Unlock()
		runtime.Gosched() // the engine sends the result before the next handshake, which may keep the processor for long
		p.mu.Lock()
	}
	p.running--
	p.ended()
}

func (p *Pool) ended() {
	if p.spawned--; p.spawned == 0 {
		p.idle.Broadcast()
	}
}

// giveUp makes another goroutine run in place of the goroutine that runs h.
func (p *Pool) giveUp(h *Handshake) {
	if h.slow {
		h.slow = false
		p.slow-- // a closed handshake is the application's matter
	}
	if !h.givenUp {
		h.givenUp = true
		p.running--
		p.start()
	}
}

// watch gives up the goroutine of a handshake that runs for longer than slowAfter. If there are maxSlow of them, it looks again later.
func (p *Pool) watch(h *Handshake) *time.Timer {
	var again *time.Timer
	again = time.AfterFunc(slowAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case h.watch != again || h.givenUp:
		case p.slow == maxSlow:
			again.Reset(slowAfter)
		default:
			p.giveUp(h)
			h.slow = true
			p.slow++
		}
	})
	return again
}

// runOne runs one handshake for the bytes that wait for it. It is called with the lock, and releases it meanwhile. It returns false if
// the goroutine was given up meanwhile, so that another one runs in its place.
func (p *Pool) runOne(h *Handshake) (counts bool) {
	in, closed := h.input, h.closed
	if !closed {
		p.waiting--
	}
	h.input, h.bytes, h.queued, h.running = nil, 0, false, true
	h.watch = p.watch(h)
	p.mu.Unlock()
	var step *shaker.Step
	if !closed {
		step = h.advance(in)
	}
	p.mu.Lock()
	if step != nil && !h.closed {
		p.mu.Unlock()
		h.deliver(step)
		p.mu.Lock()
	}
	if h.closed || step != nil && (step.Done || step.Err != nil) {
		p.mu.Unlock()
		h.release()
		p.mu.Lock()
		h.over = true
	}
	h.watch.Stop()
	counts = !h.givenUp
	if h.slow {
		p.slow--
	}
	h.watch, h.running, h.givenUp, h.slow = nil, false, false, false
	if len(h.input) > 0 && !h.over {
		p.push(h)
	}
	return counts
}

// release ends the goroutine of crypto/tls and drops its state.
func (h *Handshake) release() {
	if h.conn == nil {
		return
	}
	h.cancel()
	_ = h.conn.Close() // it returns the error of the handshake, which was delivered
	h.conn = nil
}
