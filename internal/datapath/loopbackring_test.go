package datapath

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// onLoopback opens an adapter on 127.0.0.1 of a namespace, and a sender at the same address.
func onLoopback(t *testing.T, datapath plan.Datapath) (Device, *socketDevice, *sending) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	local := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	var d Device
	must(t, pair.A.Do(func() (err error) {
		d, err = Open(plan.Config{Address: local.Addr(), Datapath: datapath})
		return err
	}))
	t.Cleanup(func() { must(t, d.Close()) })
	port, _ := d.Ports()[0].(*socketDevice)
	return d, port, &sending{t, listenIn(t, pair.A, local), netip.AddrPortFrom(local.Addr(), d.ReceivePort())}
}

// A ring on loopback receives packets of the adapter's own address.
func TestRingOnLoopback(t *testing.T) {
	d, port, s := onLoopback(t, plan.Ring)
	for _, n := range []int{64, 1472, 2024, 2025, 60000} {
		before := inRing(t, d)
		sent := s.send(n)
		receive(t, port, func(p *provider.RxPacket) {
			if p.From.AddrPort().Addr() != s.to.Addr() || !bytes.Equal(p.Frags[0].Data, sent) {
				t.Errorf("%d bytes: %d from %v", n, p.Len, p.From)
			}
		})
		if got, want := inRing(t, d)-before == 1, n <= 2024; got != want {
			t.Errorf("%d bytes: by the ring %t, want %t", n, got, want)
		}
	}
}

// A packet that the program counts and leaves to the socket does not make the socket polled more often.
func TestRingKnowsWhatPassed(t *testing.T) {
	_, port, s := onLoopback(t, plan.Ring)
	rareLooks(port)
	s.send(2025)
	receive(t, port, func(*provider.RxPacket) {})
	port.Ready()
	if r := port.ring; r.skip == 0 || r.quiet < mostSkipped {
		t.Errorf("%d polls of the socket are skipped, %d polls are counted", r.skip, r.quiet)
	}
}

// A device without a ring returns packets at once, and does not first look for more.
func TestSocketIsReadOnce(t *testing.T) {
	_, port, s := onLoopback(t, plan.UDP)
	s.send(64)
	for end := time.Now().Add(long); !port.Ready(); {
		if time.Now().After(end) {
			t.Fatal("no packet")
		}
	}
	s.send(64) // it waits in the socket while the first packet is returned
	var rx [64]provider.RxPacket
	if n := port.Receive(rx[:]); n != 1 {
		t.Errorf("%d packets, want 1", n)
	}
	recycle(port, &rx[0])
	receive(t, port, func(*provider.RxPacket) {})
}
