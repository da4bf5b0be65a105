package datapath

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// run builds packets of these lengths that may leave in one GSO batch.
func (d *socketDevice) run(t *testing.T, paths []provider.Path, lengths []int) []provider.TxPacket {
	t.Helper()
	tx := make([]provider.TxPacket, len(lengths))
	for i, n := range lengths {
		d.packet(t, &tx[i], paths[i%len(paths)], n)
		tx[i].Joins = true
	}
	return tx
}

// lengths receives all waiting packets, and releases their frames.
func (d *socketDevice) lengths(t *testing.T) (all []int) {
	t.Helper()
	var rx [64]provider.RxPacket
	for n := d.Receive(rx[:]); n > 0; n = d.Receive(rx[:]) {
		for i := range n {
			p := &rx[i]
			if p.N != 1 || len(p.Frags[0].Data) != p.Len || p.Frags[0].Data[provider.Headroom] != byte(p.Len-provider.Headroom) {
				t.Fatalf("a packet of %d bytes in %d pieces is not what was sent", p.Len, p.N)
			}
			all = append(all, p.Len)
			recycle(d, p)
		}
	}
	return all
}

// Packets that leave in GSO batches arrive one by one and in order, whichever connections they belong to. Two connections with one
// source port share batches. All frames are released.
func TestUDPRuns(t *testing.T) {
	a, b := newUDPPair(t)
	if why := a.Info().Alone; why != "" {
		t.Skip(why)
	}
	first, _ := a.Connect(a.endpoint(portA), b.local)
	second, _ := a.Connect(a.endpoint(portA), b.local)
	sent := slices.Concat(slices.Repeat([]int{1432}, 20), []int{200}, slices.Repeat([]int{500}, 11))
	for _, paths := range [][]provider.Path{{first}, {first, second}} {
		before, _ := a.Stats()
		a.Transmit(a.run(t, paths, sent))
		if got := b.lengths(t); !slices.Equal(got, sent) {
			t.Fatalf("%d paths: arrived %v", len(paths), got)
		}
		after, _ := a.Stats()
		if inRuns := after.InRuns - before.InRuns; inRuns != uint64(len(sent)*(2-len(paths))) {
			t.Errorf("%d paths: %d packets left in runs", len(paths), inRuns)
		}
	}
	if s, _ := b.Stats(); s.Merged == 0 || s.Foreign != 0 {
		t.Errorf("%d merged, %d foreign", s.Merged, s.Foreign)
	}
	if b.receiver.Close(); b.rxPool.Free() != receiveFrames || a.txPool.Free() != sendFrames {
		t.Errorf("%d and %d frames came back", b.rxPool.Free(), a.txPool.Free())
	}
}

// If the end of a merged datagram is too short for a packet, it counts as foreign, and the other parts are received.
func TestUDPShortTail(t *testing.T) {
	a, b := newUDPPair(t)
	to, from := a.addrOf(netip.AddrPortFrom(loopback[1], a.cfg.UDPPort)), a.in
	s := udp.NewSender(4, 1)
	for _, n := range []int{100, 100, wire.BaseHeaderLen - 1} {
		s.Begin(&to, false, n, true)
		s.Add(slices.Repeat([]byte{byte(n - provider.Headroom)}, n))
	}
	s.Send(from)
	if got := b.lengths(t); !slices.Equal(got, []int{100, 100}) {
		t.Errorf("arrived %v", got)
	}
	if s, _ := b.Stats(); s.Foreign != 1 {
		t.Errorf("%d foreign packets, want the tail", s.Foreign)
	}
}
