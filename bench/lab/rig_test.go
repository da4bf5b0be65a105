package lab

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

const (
	udpPort  = 14791
	patience = time.Minute // bounds every wait
	mtu      = 1500
	// frame is the size of a full packet on the link as the kernel counts it, and payload is its payload of a large message.
	frame   = mtu + 14
	payload = 1408
)

// rate is the rate of the bottleneck in Mb/s. Two cores can carry twice as much.
const rate = 500

// setup describes a rig.
type setup struct {
	senders    int // hosts; 1 when zero
	bottleneck netlab.Bottleneck
	datapath   nd.Datapath
	ipv6       bool
}

// rig is a router with hosts around it, each with an adapter. Host 0 receives, behind the bottleneck. All other hosts send.
type rig struct {
	star     *netlab.Star
	adapters []*nd.Adapter
	addrs    []netip.Addr
	setup
}

// megabits returns a bottleneck of so many Mb/s: tokens for a few packets, and a queue of 4 ms, a hundred times the target of the
// transport.
func megabits(rate int) netlab.Bottleneck {
	perSec := rate * 1e6 / 8
	return netlab.Bottleneck{BytesPerSec: perSec, Burst: 4 * frame, Queue: perSec / 250}
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	s.senders = max(s.senders, 1)
	star := netlabtest.Star(t, netlab.StarConfig{Hosts: 1 + s.senders, MTU: mtu, IPv6: s.ipv6})
	r := &rig{star: star, setup: s}
	if s.bottleneck.BytesPerSec > 0 {
		must(t, star.SetBottleneck(0, s.bottleneck))
	}
	for _, h := range star.Hosts {
		addr := h.Addr.Addr()
		if s.ipv6 {
			addr = h.Addr6.Addr()
		}
		var a *nd.Adapter
		must(t, h.NS.Do(func() (err error) {
			a, err = nd.OpenAdapter(nd.AdapterConfig{Address: addr, UDPPort: udpPort, Datapath: s.datapath, ArenaBytes: -1})
			return err
		}))
		t.Cleanup(func() { must(t, a.Close()) })
		r.adapters, r.addrs = append(r.adapters, a), append(r.addrs, addr)
	}
	return r
}

// impair attaches the program to the router's port towards the receiver.
func (r *rig) impair(t testing.TB) *impair.Impairment {
	t.Helper()
	var p *impair.Impairment
	must(t, r.star.Router.Do(func() (err error) {
		p, err = impair.Attach(r.star.Hosts[0].PortIfindex, udpPort)
		return err
	}))
	t.Cleanup(func() { must(t, r.star.Router.Do(p.Close)) })
	return p
}

// stats adds up the counters of all adapters.
func (r *rig) stats() (sum nd.Stats) {
	sum.Drops = map[string]uint64{}
	for _, a := range r.adapters {
		s := a.Stats()
		sum.Packets.Out += s.Packets.Out
		sum.Recovery.Retransmits += s.Recovery.Retransmits
		sum.Recovery.Timeouts += s.Recovery.Timeouts
		sum.Recovery.Spurious += s.Recovery.Spurious
		sum.Packets.Marked += s.Packets.Marked
		for name, n := range s.Drops {
			sum.Drops[name] += n
		}
	}
	return sum
}

// end is one side of a connection.
type end struct {
	adapter *nd.Adapter
	cq      *nd.CompletionQueue
	qp      *nd.QueuePair
	ctr     *nd.Connector
	mr      *nd.MemoryRegion
}

func newEnd(t testing.TB, a *nd.Adapter, size, depth int) *end {
	t.Helper()
	e := &end{adapter: a}
	var err error
	e.cq, err = a.CreateCompletionQueue(2*depth + 2)
	must(t, err)
	e.qp, err = a.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: depth, InitiatorDepth: depth})
	must(t, err)
	e.ctr, err = a.CreateConnector()
	must(t, err)
	e.mr, err = a.RegisterMemory(make([]byte, size), nd.MRAllowLocalWrite|nd.MRAllowRemoteRead|nd.MRAllowRemoteWrite)
	must(t, err)
	t.Cleanup(func() {
		for _, closing := range []func() error{e.ctr.Close, e.qp.Close, e.cq.Close, e.mr.Close} {
			must(t, closing())
		}
	})
	return e
}

// connect makes a connection from a host to host 0. Both ends have size bytes of memory.
func (r *rig) connect(t testing.TB, host, size, depth int) (from, to *end) {
	t.Helper()
	from, to = newEnd(t, r.adapters[host], size, depth), newEnd(t, r.adapters[0], size, depth)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := r.adapters[0].CreateListener()
	must(t, err)
	defer func() { must(t, l.Close()) }()
	must(t, l.Bind(netip.AddrPortFrom(r.addrs[0], 0)))
	must(t, l.Listen(1))
	at, err := l.LocalAddress()
	must(t, err)
	accepted := make(chan error, 1)
	go func() {
		err := l.GetConnectionRequest(ctx, to.ctr)
		if err == nil {
			err = to.ctr.Accept(ctx, to.qp, nd.ConnectParams{InboundReadLimit: 8, OutboundReadLimit: 8})
		}
		accepted <- err
	}()
	must(t, from.ctr.Connect(ctx, from.qp, at, nd.ConnectParams{InboundReadLimit: 8, OutboundReadLimit: 8}))
	must(t, from.ctr.CompleteConnect(ctx))
	must(t, <-accepted)
	return from, to
}
