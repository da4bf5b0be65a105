package datapath

import (
	"bytes"
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// loopOf returns the port of an adapter, a path from a source port to the adapter itself, and its loop.
func loopOf(t *testing.T) (d *socketDevice, path provider.Path) {
	t.Helper()
	d, _ = newUDPPair(t)
	path, err := d.Connect(wire.Endpoint{IP: d.local.IP, Port: portA}, d.local)
	must(t, err)
	return d, path
}

// Packets of an adapter to itself arrive whole, in order and with their source, and do not pass the socket.
func TestLoopedPackets(t *testing.T) {
	d, path := loopOf(t)
	var sent [plan.RxBatch + 3]provider.TxPacket
	if size, known := d.Limit(path); size != 0 || !known {
		t.Errorf("a route limits the packets to %d bytes, known %t", size, known)
	}
	var want [][]byte
	for i := range sent {
		d.packet(t, &sent[i], path, wire.BaseHeaderLen+i*700)
		var all []byte
		for j := range sent[i].N {
			all = append(all, sent[i].Frags[j].Data...)
		}
		want = append(want, all)
		d.Transmit(sent[i : i+1])
	}
	if d.in.Readable() {
		t.Error("a packet came by the socket")
	}
	var got [plan.RxBatch]provider.RxPacket
	for len(want) > 0 {
		n := d.Receive(got[:])
		if n == 0 {
			t.Fatalf("%d packets did not arrive", len(want))
		}
		if len(want) > n && n < len(got) {
			t.Errorf("%d packets wait behind a batch of %d: the engine does not receive again at once", len(want)-n, n)
		}
		for i := range got[:n] {
			p := &got[i]
			if p.From != (wire.Endpoint{IP: d.local.IP, Port: portA}) || p.To != d.local || !bytes.Equal(p.Frags[0].Data, want[i]) || p.Len != len(want[i]) {
				t.Fatalf("%d bytes came from %v to %v, want %d", p.Len, p.From, p.To, len(want[i]))
			}
			d.Recycle([]uint64{p.Frags[0].ID})
		}
		want = want[n:]
	}
	if d.Ready() {
		t.Error("something else arrived")
	}
}

// While packets wait in the loop, packets of others are still received.
func TestLoopedPacketsBesideOthers(t *testing.T) {
	a, b := newUDPPair(t)
	itself, err := a.Connect(wire.Endpoint{IP: a.local.IP, Port: portA}, a.local)
	must(t, err)
	other, err := b.Connect(wire.Endpoint{IP: b.local.IP, Port: portA}, a.local)
	must(t, err)
	var p provider.TxPacket
	b.packet(t, &p, other, wire.BaseHeaderLen)
	b.Transmit([]provider.TxPacket{p})
	var got [plan.RxBatch]provider.RxPacket
	for range loopedPolls {
		for range got {
			a.packet(t, &p, itself, wire.BaseHeaderLen)
			a.Transmit([]provider.TxPacket{p})
		}
		n := a.Receive(got[:])
		for i := range got[:n] {
			a.Recycle([]uint64{got[i].Frags[0].ID})
			if got[i].From.IP == b.local.IP {
				return
			}
		}
	}
	t.Errorf("the packet of another adapter was not received in %d polls", loopedPolls)
}

// Senders wait while half of the loop is in use. A packet for which there is no memory is lost and counted. Copies are used again without
// an allocation, and most of their memory is given back.
func TestLoopedPacketsAreBounded(t *testing.T) {
	d, path := loopOf(t)
	var p provider.TxPacket
	d.packet(t, &p, path, wire.BaseHeaderLen)
	for range mostLooped / 2 {
		d.loop.add(&p, portA)
	}
	if n := d.Frames(make([]provider.Frag, 1)); n != 0 {
		t.Error("there are frames for more packets")
	}
	for d.loop.lost.Load() == 0 {
		d.loop.add(&p, portA)
	}
	if n := len(d.loop.waiting); n != mostLooped {
		t.Errorf("%d packets wait", n)
	}
	var got [plan.RxBatch]provider.RxPacket
	for len(d.loop.waiting) > 0 {
		for i := range got[:d.Receive(got[:])] {
			d.Recycle([]uint64{got[i].Frags[0].ID})
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		d.loop.add(&p, portA)
		d.loop.receive(got[:])
		d.loop.recycle(got[0].Frags[0].ID)
	}); n != 0 {
		t.Errorf("%v allocations for a packet", n)
	}
	d.loop.rests.Store(true)
	d.Receive(got[:])
	kept := 0
	for _, c := range d.loop.copies {
		if c != nil {
			kept++
		}
	}
	if kept != keptLooped {
		t.Errorf("%d copies are kept", kept)
	}
	st, err := d.Stats()
	must(t, err)
	if st.Lost != 1 || st.LocalOut != st.LocalIn+1 {
		t.Errorf("%d packets are counted as lost, %d as sent and %d as received", st.Lost, st.LocalOut, st.LocalIn)
	}
}
