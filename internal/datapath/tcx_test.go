package datapath

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Packets stay in the ring until all packets of a batch are recycled. Meanwhile the ring fills up, and further packets go to the
// socket. Afterwards the ring has room again.
func TestTCXLendsTheRing(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := opened(t, pair, plan.Config{Datapath: plan.TCX})
	s, port := newSender(t, pair, d), d.Ports()[0]
	const length, recordBytes = 1400, 8 + 40 + 2024
	for round := range 3 {
		var held []provider.RxPacket
		before := inRing(t, d)
		for n := range bpf.RingBytes/recordBytes + 40 {
			sent := s.send(length)
			var rx [1]provider.RxPacket
			testhelp.Eventually(t, "a packet", func() bool { return port.Receive(rx[:]) > 0 })
			if got := rx[0].Frags[0].Data; len(got) != length || got[0] != sent[0] {
				t.Fatalf("round %d: packet %d has %d bytes", round, n, len(got))
			}
			held = append(held, rx[0])
		}
		by := inRing(t, d) - before
		if by != bpf.RingBytes/recordBytes {
			t.Errorf("round %d: %d of %d packets came by the ring", round, by, len(held))
		}
		for i := range held {
			recycle(port, &held[i])
		}
		if ringOf(port).Waiting() {
			t.Errorf("round %d: the ring has packets that were recycled", round)
		}
	}
}

// A packet from the ring carries the link-layer address of its sender, so its answer needs no neighbour look-up. A packet from the
// socket does not: its answer leaves by AF_XDP if the neighbour is known, and otherwise by the socket.
func TestTCXAnswers(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 9000})
	d := opened(t, pair, plan.Config{Datapath: plan.TCX}).(*xdpDevice)
	s, q := newSender(t, pair, d), d.queues[0]
	const bySocket = 3000
	hop := func(length int) (mac [6]byte, local bool) {
		s.send(length)
		receive(t, q, func(p *provider.RxPacket) {
			path, ok := q.Reply(p, wire.SourcePort(1), p.From.Port)
			if !ok {
				t.Fatal("no path")
			}
			mac, local = q.Hop(path), q.paths[path].local != nil
			q.Forget(path)
		})
		return mac, local
	}
	theirs := [6]byte(pair.MACB)
	if mac, local := hop(64); mac != theirs || local {
		t.Errorf("the answer goes to %x, by the socket %t", mac, local)
	}
	if _, local := hop(bySocket); !local {
		t.Error("an unknown neighbour is answered by AF_XDP")
	}
	d.state.Found(pair.AddrB.Addr(), pair.AddrB.Addr(), theirs, d.resolver.Now())
	if mac, local := hop(bySocket); mac != theirs || local {
		t.Errorf("the answer goes to %x, by the socket %t", mac, local)
	}
}

// TestTCXIsTakenAway: without its program an adapter receives nothing, and no event reports that. The adapter detects it and ends.
func TestTCXIsTakenAway(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := opened(t, pair, plan.Config{Datapath: plan.TCX}).(*xdpDevice)
	if d.Detached() {
		t.Error("it is detached from the start")
	}
	must(t, pair.A.Do(func() error {
		attached, err := link.QueryPrograms(link.QueryOptions{Target: pair.IfindexA, Attach: ebpf.AttachTCXIngress})
		must(t, err)
		id, _ := attached.Programs[0].LinkID()
		l, err := link.NewFromID(id)
		must(t, err)
		return errors.Join(l.Detach(), l.Close())
	}))
	if !d.Detached() {
		t.Error("the adapter does not notice")
	}
}

// Other programs' XDP programs do not affect a ring, and auto uses it as without them. For an XDP program in generic mode the
// kernel copies packets, and does not keep the length of their link-layer header.
func TestTCXBesideXDP(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		other, err := bpf.Attach(bpf.Config{Ifindex: pair.IfindexA, Interface: pair.NameA, Port: 9, Queues: 1, Mode: bpf.ModeGeneric})
		if err == nil {
			t.Cleanup(func() { must(t, other.Close()) })
		}
		return err
	}))
	d := opened(t, pair, plan.Config{})
	wantReason(t, d, plan.TCX, "veth")
	newSender(t, pair, d).send(64)
	receive(t, d.Ports()[0], func(p *provider.RxPacket) {
		if p.MAC != [6]byte(pair.MACB) {
			t.Errorf("a packet from %x, want %x", p.MAC, pair.MACB)
		}
	})
	if n := inRing(t, d); n != 1 {
		t.Errorf("%d packets came by the ring", n)
	}
}

// A veth interface with several queues gets no ring, because a ring has one reader.
func TestTCXHasOneQueue(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{Queues: 2})
	wantReason(t, opened(t, pair, plan.Config{}), plan.Generic, "veth")
}
