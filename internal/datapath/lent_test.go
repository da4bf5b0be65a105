package datapath

import (
	"bytes"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// lentTo replaces all but the first n bytes of a one-frame packet by application memory, and returns the packet's bytes as they
// must arrive.
func lentTo(p *provider.TxPacket, n int) (whole []byte) {
	rest := bytes.Repeat([]byte{0xd5}, p.Len-n)
	p.Frags[0].Data = p.Frags[0].Data[:n]
	p.Frags[1] = provider.Frag{Data: rest, ID: provider.Lent}
	p.N = 2
	return append(bytes.Clone(p.Frags[0].Data), rest...)
}

// A packet on the bulk path may consist of a frame and of application memory. Afterwards the frame is released, and nothing refers
// to the memory.
func TestBulkLaneSendsLentMemory(t *testing.T) {
	_, a, b := newBulkPair(t)
	path, ok := a.BulkPath(b.device.bulk.local)
	if !ok {
		t.Fatal("no path")
	}
	const n, size = 30, 1400
	free := a.freeFrames()
	pkts := a.bulkPackets(t, path, n, size)
	want := make([][]byte, n)
	for i := range pkts {
		want[i] = lentTo(&pkts[i], 64)
	}
	a.Transmit(pkts)
	i := 0
	got := b.bulkArrivals(t, n, func(p *provider.RxPacket) {
		if !bytes.Equal(p.Frags[0].Data, want[i]) {
			t.Errorf("packet %d has other bytes", i)
		}
		i++
	})
	if got != n || a.freeFrames() != free {
		t.Errorf("%d packets arrived, %d frames are free of %d", got, a.freeFrames(), free)
	}
	for i := range pkts {
		if pkts[i].Frags[1].Data != nil {
			t.Fatal("the memory is still referenced")
		}
	}
}

// A packet over plain sockets may refer to application memory as well.
func TestPlainSocketsSendLentMemory(t *testing.T) {
	a, b := newUDPPair(t)
	path, err := a.Connect(a.endpoint(portA), b.local)
	if err != nil {
		t.Fatal("no path")
	}
	var rx [64]provider.RxPacket
	var tx [1]provider.TxPacket
	for range 4 * sendFrames { // enough rounds to detect a lost frame, or memory mistaken for a frame
		a.packet(t, &tx[0], path, 1400)
		want := lentTo(&tx[0], 64)
		if a.Transmit(tx[:]); tx[0].Frags[1].Data != nil {
			t.Fatal("the memory is still referenced")
		}
		if b.Receive(rx[:]) != 1 || !bytes.Equal(rx[0].Frags[0].Data, want) {
			t.Fatal("other bytes arrived")
		}
		recycle(b, &rx[0])
	}
	if _, ok := provider.Link(a).(provider.Copier); !ok {
		t.Error("no packet over plain sockets refers to application memory")
	}
}
