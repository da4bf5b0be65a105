package nd

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// lanes are two endpoints whose adapters have bulk lanes, on a veth pair with offloads.
type lanes struct {
	t              *testing.T
	pair           *netlab.Pair
	client, server *Endpoint
	moved          int
}

// newLanes connects them. before is called when both adapters are open.
func newLanes(t *testing.T, queues int, choice BulkLane, before func(l *lanes, server *Adapter)) *lanes {
	t.Helper()
	return newLanesBetween(t, queues, choice, DatapathGeneric, DatapathGeneric, before)
}

// newLanesBetween does that with adapters of two datapaths.
func newLanesBetween(t *testing.T, queues int, choice BulkLane, by, to Datapath, before func(l *lanes, server *Adapter)) *lanes {
	t.Helper()
	l := &lanes{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{Queues: queues, Offloads: true, StaticNeighbours: true})}
	open := func(ns *netlab.Namespace, addr netip.Addr, path Datapath) (a *Adapter) {
		must(t, ns.Do(func() (err error) {
			a, err = OpenAdapter(AdapterConfig{Address: addr, Datapath: path, Bulk: choice})
			return err
		}))
		t.Cleanup(func() { must(t, a.Close()) })
		if d := a.Datapath(); path != DatapathUDP && choice != BulkOff && d.BulkPort == 0 {
			t.Skipf("no bulk lane here: %s", d.NoBulk)
		}
		return a
	}
	a, b := open(l.pair.A, l.pair.AddrA.Addr(), by), open(l.pair.B, l.pair.AddrB.Addr(), to)
	if before != nil {
		before(l, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	listener, err := Listen(netip.AddrPortFrom(l.pair.AddrB.Addr(), 0), EndpointConfig{Adapter: b, Rights: MRAllowRemoteWrite})
	must(t, err)
	t.Cleanup(func() { must(t, listener.Close()) })
	at, err := listener.Address()
	must(t, err)
	accepted := start(func() (err error) { l.server, err = listener.Accept(ctx); return err })
	l.client, err = Dial(ctx, at, EndpointConfig{Adapter: a})
	must(t, err)
	must(t, finish(t, "accept", accepted))
	return l
}

// move writes all of the memory, with other bytes each time, and wants them to arrive.
func (l *lanes) move() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	l.moved++
	b := l.client.Memory.Bytes()
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(l.moved)
	}
	must(l.t, l.client.QueuePair.Write(1, []SGE{l.client.Memory.SGE(0, len(b))}, l.client.Peer.Address, l.client.Peer.Token, 0))
	if r, err := l.client.Result(ctx); err != nil || r.Status != StatusSuccess {
		l.t.Fatalf("round %d: %+v, %v; client %+v; server %+v", l.moved, r, err, l.client.Adapter.Stats(), l.server.Adapter.Stats())
	}
	l.server.Adapter.Stats() // after the turn of the engine that wrote there: the race detector sees no packets
	if !bytes.Equal(l.server.Memory.Bytes(), b) {
		l.t.Fatalf("round %d: other bytes arrived", l.moved)
	}
}

// moveUntil moves until so, or fails. It is bounded by time, because what is awaited, such as that nobody answers, takes time and no number of bytes.
func (l *lanes) moveUntil(what string, so func(client, server Stats) bool) {
	l.t.Helper()
	for began, from := time.Now(), l.moved; ; {
		if l.move(); so(l.client.Adapter.Stats(), l.server.Adapter.Stats()) {
			return
		}
		if took := time.Since(began); took > patience {
			l.t.Fatalf("%s: never in %v and %d moves; client %+v", what, took, l.moved-from, l.client.Adapter.Stats())
		}
	}
}

// firewall drops what leaves the client for the lane of the server, on the way out of the kernel.
func (l *lanes) firewall(server *Adapter) *impair.Impairment {
	l.t.Helper()
	var f *impair.Impairment
	must(l.t, l.pair.A.Do(func() (err error) {
		f, err = impair.Attach(l.pair.IfindexA, server.Datapath().BulkPort)
		return err
	}))
	l.t.Cleanup(func() { must(l.t, l.pair.A.Do(f.Close)) })
	must(l.t, f.Set(impair.Config{Loss: 1}))
	return f
}

func (l *lanes) dropped(f *impair.Impairment) int {
	l.t.Helper()
	c, err := f.Counts()
	must(l.t, err)
	return c.Dropped
}

// state returns what the client's connection says of the lane.
func (l *lanes) state() string {
	l.t.Helper()
	all := l.client.Adapter.Connections()
	if len(all) != 1 {
		l.t.Fatalf("%d connections", len(all))
	}
	return all[0].BulkLane
}

// Long messages go by the lane in runs, whatever queue a connection is on (PROTOCOL §11.1).
func TestBulkLaneOfAnAdapter(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{1, 4} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			t.Parallel()
			l := newLanes(t, queues, BulkOnly, nil)
			l.moveUntil("the lane is used", func(client, server Stats) bool {
				return client.Bulk.Proven > 0 && client.Sockets.InBatches > 0 && server.Bulk.PacketsIn > 100
			})
		})
	}
}

// An adapter of plain sockets has its lane at its only port. Between such a one and one that reads raw frames long messages go in runs, too, both ways.
func TestBulkLaneOfSockets(t *testing.T) {
	t.Parallel()
	for _, x := range [][2]Datapath{{DatapathUDP, DatapathGeneric}, {DatapathGeneric, DatapathUDP}} {
		t.Run(fmt.Sprint(x[0], " to ", x[1]), func(t *testing.T) {
			t.Parallel()
			l := newLanesBetween(t, 1, BulkOnly, x[0], x[1], nil)
			l.moveUntil("the lane is used", func(client, server Stats) bool {
				return client.Bulk.Proven > 0 && client.Sockets.InBatches > 0 && server.Bulk.PacketsIn > 100 && server.Sockets.Merged > 100
			})
			// A client that hears nothing for long, as on a busy machine, changes its port, and the server challenges that.
			server, client := l.server.Adapter.Stats().Paths, l.client.Adapter.Stats().Paths
			if client.PortsChanged == 0 && (server.Challenges != 0 || server.Proven != 0) {
				t.Errorf("the lane's port was taken for a new path of the peer: server %+v, client %+v", server, client)
			}
			off := newLanesBetween(t, 1, BulkOff, x[0], x[1], nil)
			if off.move(); off.state() != "" {
				t.Errorf("with the lane turned off it is %q", off.state())
			}
		})
	}
}

// Nobody has to ask for a lane: connections of adapters whose interface segments UDP try it, and say what they found.
func TestBulkLaneUnasked(t *testing.T) {
	t.Parallel()
	l := newLanes(t, 1, BulkAuto, nil)
	l.moveUntil("the lane is tried", func(client, server Stats) bool { return client.Bulk.Proven > 0 && server.Bulk.PacketsIn > 100 })
	if s := l.state(); s != "proven" {
		t.Errorf("the lane is %q", s)
	}
}

// A firewall that drops the lane's port from the beginning costs probes: data go by AF_XDP, and the adapter says that the lane is not proven.
func TestBulkLaneBehindAFirewall(t *testing.T) {
	t.Parallel()
	var f *impair.Impairment
	l := newLanes(t, 1, BulkOnly, func(l *lanes, server *Adapter) { f = l.firewall(server) })
	l.moveUntil("the lane is given up", func(client, _ Stats) bool { return client.Bulk.Unanswered > 0 })
	c, s := l.client.Adapter.Stats(), l.server.Adapter.Stats()
	if c.Bulk.Proven != 0 || s.Bulk.PacketsIn != 0 || c.Bulk.PacketsOut != c.Bulk.Probes || c.Bulk.TimedOut != 0 || l.state() != "unproven" || l.dropped(f) == 0 {
		t.Errorf("%s, %d dropped; client %+v", l.state(), l.dropped(f), c)
	}
}

// A firewall that drops the port in the middle ends the use of the lane: the write that was under way and those behind it arrive by AF_XDP, and the cause is counted.
func TestFirewallInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLanes(t, 1, BulkOnly, nil)
	l.moveUntil("the lane is used", func(client, server Stats) bool { return client.Bulk.Proven > 0 && server.Bulk.PacketsIn > 100 })
	f := l.firewall(l.server.Adapter)
	before := l.server.Adapter.Stats().Packets.In
	l.moveUntil("the lane is left", func(client, _ Stats) bool { return client.Bulk.Left > 0 })
	l.moveUntil("nothing goes there", func(Stats, Stats) bool { return l.state() == "unproven" })
	if s := l.server.Adapter.Stats(); s.Packets.In == before || l.dropped(f) == 0 {
		t.Errorf("%d packets came, %d were dropped", s.Packets.In-before, l.dropped(f))
	}
}
