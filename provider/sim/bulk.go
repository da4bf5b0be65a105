package sim

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Bulk is an application that keeps requests of one kind and size outstanding and measures them.
type Bulk struct {
	Kind  provider.RequestKind
	Size  int
	Depth int           // outstanding requests
	Limit int           // total requests; zero for no limit
	Every time.Duration // time between two requests; zero for none

	Posted, Done int
	Times        []time.Duration // latency of each request, from post to result
	Finished     clock.Time      // when the last of Limit requests completed

	from, to *Host
	qp       *provider.QP
	cq       *provider.CQ
	request  provider.Request
	entries  []provider.SGE
	at       []clock.Time // post times of outstanding requests, oldest first
	nextAt   clock.Time
	running  bool
}

// bulkConfig returns the host configuration of congestion scenarios: fast hosts with enough frames.
func bulkConfig(packet int) HostConfig {
	return HostConfig{
		MaxPacket: packet, FragSize: 3840, TxFrames: 4096, TxHold: 2 * time.Microsecond, Turn: 2 * time.Microsecond, Wake: 2 * time.Microsecond,
	}
}

// Attach connects b from one host to another. b stays idle until Start. Ports distinguish connections.
func (n *Network) Attach(b *Bulk, from, to *Host, port uint16) {
	b.from, b.to = from, to
	b.cq = provider.NewCQ(2 * b.Depth)
	make2 := func(h *Host, cq *provider.CQ) (qp *provider.QP, ctr *provider.Connector, region *provider.Region) {
		region, err := h.Memory.Register(make([]byte, b.Size), provider.RightLocalWrite|provider.RightRemoteRead|provider.RightRemoteWrite)
		if err != nil {
			n.Fail("register: %v", err)
		}
		h.Do(func(e *provider.Engine) {
			qp = e.NewQP(provider.QPConfig{
				ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 1, InitiatorDepth: b.Depth, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
			})
			ctr = e.NewConnector()
		})
		return qp, ctr, region
	}
	qp, ctr, local := make2(from, b.cq)
	peer, acceptor, remote := make2(to, provider.NewCQ(16))
	b.qp = qp
	b.request = provider.Request{
		Kind: b.Kind, Length: uint32(b.Size), Addr: remote.Base(), Token: remote.Token(),
	}
	b.entries = []provider.SGE{{Addr: local.Base(), Len: uint32(b.Size), Token: local.Token()}}
	steps := 0
	next := func(o provider.Outcome) {
		if o != provider.OutcomeSuccess {
			n.Fail("connect: %v", o)
		}
		steps++
	}
	params := provider.ConnectParams{Inbound: 16, Outbound: 16}
	at := wire.Endpoint{IP: to.IP, Port: port}
	var listener *provider.Listener
	secret := n.drawTLS(from, to)
	started := func(o provider.Outcome) {
		if o != provider.OutcomeSuccess {
			n.Fail("connect: %v", o)
		}
	}
	to.Do(func(e *provider.Engine) {
		listener = e.NewListener()
		_, o := listener.Bind(at)
		started(o)
		started(secret.listen(listener))
		started(listener.Listen(1))
		started(listener.GetRequest(acceptor, next))
	})
	started(secret.connect(ctr))
	from.Do(func(*provider.Engine) { started(connect(ctr, qp, wire.Endpoint{IP: from.IP}, at, params, next)) })
	wait := func(want int) {
		if !n.RunUntil(10*time.Second, func() bool { return steps >= want }) {
			n.Fail("no connection after %d steps", steps)
		}
	}
	wait(1)
	to.Do(func(*provider.Engine) { started(acceptor.Accept(peer, params, next)) })
	wait(2)
	from.Do(func(*provider.Engine) { started(ctr.CompleteConnect(next)) })
	wait(4)
	old := from.app
	from.app = func() bool {
		posted := old != nil && old()
		return b.act() || posted
	}
}

// Start starts b after a delay.
func (b *Bulk) Start(after time.Duration) {
	b.from.net.After(after, func() {
		b.running, b.nextAt = true, b.from.net.now
		b.tick()
	})
}

// Stop stops posting.
func (b *Bulk) Stop() { b.running = false }

// tick runs a host whose application posts by the clock.
func (b *Bulk) tick() {
	b.act()
	b.from.Poke()
	if b.Every > 0 && b.running {
		b.from.net.After(b.Every, b.tick)
	}
}

// act takes results and posts requests. It reports whether it posted.
func (b *Bulk) act() (posted bool) {
	now := b.from.net.now
	var rs [16]provider.Result
	for n := b.cq.Fetch(rs[:]); n > 0; n = b.cq.Fetch(rs[:]) {
		for i := range n {
			if rs[i].Outcome != provider.OutcomeSuccess {
				b.from.net.Fail("result: %v", rs[i].Outcome)
			}
			b.Times = append(b.Times, now.Sub(b.at[i]))
		}
		b.at = b.at[n:]
		if b.Done += n; b.Done == b.Limit {
			b.Finished = now
		}
	}
	for b.running && len(b.at) < b.Depth && (b.Limit == 0 || b.Posted < b.Limit) && b.nextAt <= now {
		if _, o := b.qp.Post(&b.request, b.entries); o != provider.OutcomeSuccess {
			b.from.net.Fail("post: %v", o)
			return posted
		}
		b.at = append(b.at, now)
		b.Posted++
		b.nextAt = b.nextAt.Add(b.Every)
		posted = true
	}
	return posted
}

// Forget resets the measurements.
func (b *Bulk) Forget() { b.Done, b.Times = 0, b.Times[:0] }
