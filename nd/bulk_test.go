package nd

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// lanes is two endpoints on a veth pair with offloads. Their adapters have bulk paths.
type lanes struct {
	t              *testing.T
	pair           *netlab.Pair
	client, server *Endpoint
	moved          int
}

// newLanes connects the two endpoints. before is called when both adapters are open.
func newLanes(t *testing.T, queues int, choice BulkLane, before func(l *lanes, server *Adapter)) *lanes {
	t.Helper()
	return newLanesBetween(t, queues, choice, DatapathGeneric, DatapathGeneric, before)
}

// newLanesBetween is newLanes with adapters of two datapaths.
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
			t.Skipf("needs an interface that segments UDP datagrams: %s", d.NoBulk)
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

// move writes all of the memory with new contents, and fails the test unless they arrive.
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
	l.server.Adapter.Stats() // waits for the end of the engine's poll: the race detector does not see memory that packets write
	if !bytes.Equal(l.server.Memory.Bytes(), b) {
		l.t.Fatalf("round %d: other bytes arrived", l.moved)
	}
}

// moveUntil moves data until the condition holds, or fails the test. A time limit bounds it, because events such as unanswered
// probes take time and no particular number of bytes.
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

// firewall drops the client's packets to the bulk path of the server, where they leave the kernel.
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

// state returns the state of the bulk path of the client's connection.
func (l *lanes) state() string {
	l.t.Helper()
	all := l.client.Adapter.Connections()
	if len(all) != 1 {
		l.t.Fatalf("%d connections", len(all))
	}
	return all[0].BulkLane
}

// Long messages use the bulk path in GSO batches, whichever queue a connection belongs to (PROTOCOL §11.1).
func TestBulkLaneOfAnAdapter(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{1, 4} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			t.Parallel()
			l := newLanes(t, queues, BulkOnly, nil)
			l.moveUntil("the bulk path is used", func(client, server Stats) bool {
				return client.Bulk.Proven > 0 && client.Sockets.InBatches > 0 && server.Bulk.PacketsIn > 100
			})
		})
	}
}

// The only port of an adapter of plain sockets is also its bulk path. Long messages between such an adapter and one that reads raw
// frames use GSO batches in both directions.
func TestBulkLaneOfSockets(t *testing.T) {
	t.Parallel()
	for _, x := range [][2]Datapath{{DatapathUDP, DatapathGeneric}, {DatapathGeneric, DatapathUDP}} {
		t.Run(fmt.Sprint(x[0], " to ", x[1]), func(t *testing.T) {
			t.Parallel()
			l := newLanesBetween(t, 1, BulkOnly, x[0], x[1], nil)
			l.moveUntil("the bulk path is used", func(client, server Stats) bool {
				return client.Bulk.Proven > 0 && client.Sockets.InBatches > 0 && server.Bulk.PacketsIn > 100 && server.Sockets.Merged > 100
			})
			// A client that receives nothing for long, as on a busy machine, changes its port, and the server challenges the new
			// port.
			server, client := l.server.Adapter.Stats().Paths, l.client.Adapter.Stats().Paths
			if client.PortsChanged == 0 && (server.Challenges != 0 || server.Proven != 0) {
				t.Errorf("the bulk port counts as a new path of the peer: server %+v, client %+v", server, client)
			}
			off := newLanesBetween(t, 1, BulkOff, x[0], x[1], nil)
			if off.move(); off.state() != "" {
				t.Errorf("with the bulk path turned off it is %q", off.state())
			}
		})
	}
}

// The bulk path is on by default: if the interface segments UDP, connections probe it, and report the result.
func TestBulkLaneUnasked(t *testing.T) {
	t.Parallel()
	l := newLanes(t, 1, BulkAuto, nil)
	l.moveUntil("the bulk path is tried", func(client, server Stats) bool { return client.Bulk.Proven > 0 && server.Bulk.PacketsIn > 100 })
	if s := l.state(); s != "proven" {
		t.Errorf("the bulk path is %q", s)
	}
}

// If a firewall drops the packets to the bulk path from the beginning, only probes are lost: data use AF_XDP, and the adapter
// reports that the bulk path is not confirmed.
func TestBulkLaneBehindAFirewall(t *testing.T) {
	t.Parallel()
	var f *impair.Impairment
	l := newLanes(t, 1, BulkOnly, func(l *lanes, server *Adapter) { f = l.firewall(server) })
	l.moveUntil("the bulk path is given up", func(client, _ Stats) bool { return client.Bulk.Unanswered > 0 })
	c, s := l.client.Adapter.Stats(), l.server.Adapter.Stats()
	if c.Bulk.Proven != 0 || s.Bulk.PacketsIn != 0 || c.Bulk.PacketsOut != c.Bulk.Probes || c.Bulk.TimedOut != 0 || l.state() != "unproven" || l.dropped(f) == 0 {
		t.Errorf("%s, %d dropped; client %+v", l.state(), l.dropped(f), c)
	}
}

// If a firewall begins to drop the packets to the bulk path, its use ends. The Write in flight and all later ones arrive by AF_XDP,
// and the cause is counted.
func TestFirewallInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLanes(t, 1, BulkOnly, nil)
	l.moveUntil("the bulk path is used", func(client, server Stats) bool { return client.Bulk.Proven > 0 && server.Bulk.PacketsIn > 100 })
	f := l.firewall(l.server.Adapter)
	before := l.server.Adapter.Stats().Packets.In
	l.moveUntil("the bulk path is left", func(client, _ Stats) bool { return client.Bulk.Left > 0 })
	l.moveUntil("nothing goes there", func(Stats, Stats) bool { return l.state() == "unproven" })
	if s := l.server.Adapter.Stats(); s.Packets.In == before || l.dropped(f) == 0 {
		t.Errorf("%d packets came, %d were dropped", s.Packets.In-before, l.dropped(f))
	}
}

// On a virtual link connections soon send long packets, which are whole GSO batches. If the sender's kernel begins to split batches, they
// do not arrive any more, and the connection goes on with batches of many packets.
func TestLongPackets(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("ethtool is missing: apt-get install ethtool")
	}
	for _, on := range []Datapath{DatapathTCX, DatapathGeneric} {
		t.Run(on.String(), func(t *testing.T) {
			t.Parallel()
			l := newLanesBetween(t, 1, BulkAuto, on, on, nil)
			l.moveUntil("long packets are used", func(client, server Stats) bool { return client.Bulk.Long > 0 })
			l.moveUntil("they are long", func(client, server Stats) bool {
				return server.Bulk.PacketsIn > 100 && server.Bulk.BytesIn > 4000*server.Bulk.PacketsIn
			})
			cmd := exec.Command("ethtool", "-K", "nd0", "tx-udp-segmentation", "off")
			must(t, l.pair.A.StartProcess(cmd))
			must(t, cmd.Wait())
			l.moveUntil("long packets end", func(client, server Stats) bool { return client.Bulk.LongLeft > 0 })
		})
	}
}
