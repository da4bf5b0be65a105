package datapath

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// A broker's client listens for ICMP errors on a limited number of its source ports, and leaves descriptors to the program. A path
// without such a socket counts, and does not close the socket of another path with the same port.
func TestHeardPortsAreBounded(t *testing.T) {
	network, err := udp.NewNetwork()
	must(t, err)
	defer func() { must(t, network.Close()) }()
	here := netip.AddrPortFrom(loopback[0], netlabtest.FreePort(t))
	ports := &sources{network: network, opened: map[uint16]*source{}, most: 2, cfg: udp.Config{Local: here}}
	q := &queue{device: &xdpDevice{heard: &errorQueues{sources: ports}}, paths: make([]path, 1)}
	q.device.cfg.UDPPort = here.Port()
	arrived := provider.RxPacket{From: wire.EndpointFrom(here), To: wire.EndpointFrom(here), MAC: [6]byte{1}}
	reply := func(port uint16) provider.Path {
		p, ok := q.Reply(&arrived, port, here.Port())
		if !ok {
			t.Fatalf("no path from port %d", port)
		}
		return p
	}
	heard := func(p provider.Path) bool { return q.paths[p].heard != nil }
	last := netlabtest.FreePort(t)
	first, second, third := reply(portA), reply(portB), reply(last)
	if !heard(first) || !heard(second) || heard(third) || len(ports.opened) != 2 {
		t.Fatalf("%t, %t, %t have an error socket, %d sockets are open; want the first two, and two sockets", heard(first), heard(second), heard(third), len(ports.opened))
	}
	var s Stats
	if ports.addTo(&s); s.NoDescriptors != 1 {
		t.Errorf("%d ports without a socket count, want 1", s.NoDescriptors)
	}
	q.Forget(first)
	again := reply(last)
	q.Forget(third)
	if !heard(again) || ports.opened[last] == nil {
		t.Error("a path without a socket closed the socket of another path")
	}
	q.Forget(again)
	q.Forget(second)
	if len(ports.opened) != 0 {
		t.Errorf("%d sockets are left", len(ports.opened))
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	before := limit
	limit.Cur = 100
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	n := mostHeard()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	if n != 25 {
		t.Errorf("%d of 100 descriptors, want a quarter", n)
	}
}
