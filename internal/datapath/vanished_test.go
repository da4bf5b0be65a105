package datapath

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

func TestVanished(t *testing.T) {
	for _, c := range []struct {
		name    string
		steered uint64
		sockets xdp.Statistics
		want    uint64
	}{
		{"nothing", 0, xdp.Statistics{}, 0},
		{"all received", 1000, xdp.Statistics{RxPackets: 1000}, 0},
		{"on their way", 1000 + VanishedAlarm - 1, xdp.Statistics{RxPackets: 1000}, 0},
		{"one too many", 1000 + VanishedAlarm, xdp.Statistics{RxPackets: 1000}, VanishedAlarm},
		{"waiting in the ring", 5000, xdp.Statistics{RxPackets: 1000, RxWaiting: 4000}, 0},
		{"dropped and counted", 5000, xdp.Statistics{RxPackets: 1000, RxDropped: 3000, RxRingFull: 1000}, 0},
		{"more received since", 1000, xdp.Statistics{RxPackets: math.MaxInt64}, 0},
		{"a broker has the program", 0, xdp.Statistics{RxPackets: 1000}, 0},
		{"all of them", 500, xdp.Statistics{}, 500},
	} {
		steered := bpf.Counters{bpf.VerdictRedirected: c.steered / 2, bpf.VerdictRedirectedVLAN: c.steered - c.steered/2, bpf.VerdictNotUDP: 7}
		if got := vanished(&steered, &c.sockets); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestPacketsVanish makes the program redirect packets to sockets of other queues. The kernel refuses that at the same point as for
// another interface.
func TestPacketsVanish(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{Queues: 2, StaticNeighbours: true})
	var d *xdpDevice
	must(t, pair.A.Do(func() error {
		opened, err := Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: plan.Generic})
		if err == nil {
			d = opened.(*xdpDevice)
		}
		return err
	}))
	t.Cleanup(func() { must(t, d.Close()) })
	const packets = 200
	sendFrom := func(ns *netlab.Namespace) {
		must(t, ns.Do(func() error {
			s, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(pair.AddrA.Addr(), wire.DefaultPort)))
			must(t, err)
			defer s.Close()
			for range packets {
				_, err := s.Write(make([]byte, wire.BaseHeaderLen))
				must(t, err)
			}
			return nil
		}))
	}
	send := func() { sendFrom(pair.B) }
	// want waits until the kernel has delivered the packets.
	want := func(what string, number func(*Stats) uint64) {
		t.Helper()
		var s Stats
		for deadline := time.After(time.Minute); number(&s) != packets; {
			select {
			case <-deadline:
				t.Fatalf("%s: %d, want %d: %+v", what, number(&s), packets, s)
			default:
			}
			var err error
			s, err = d.Stats()
			must(t, err)
		}
	}
	send()
	want("waiting", func(s *Stats) uint64 { return s.Socket.RxWaiting })
	for number := range d.queues {
		must(t, d.steering.SetSocket(uint32(number), d.queues[1-number].sock.FD()))
	}
	// Packets that the socket drops for want of room do not hide others.
	must(t, unix.SetsockoptInt(d.udp.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF, 0))
	sendFrom(pair.A)
	if s, err := d.Stats(); err != nil || s.Socket.RxDropped < VanishedAlarm {
		t.Errorf("%v, %d dropped", err, s.Socket.RxDropped)
	}
	send()
	want("vanished", func(s *Stats) uint64 { return s.Vanished })
	for number := range d.queues {
		// A closed socket leaves its queue without a socket.
		fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		must(t, errors.Join(d.steering.SetSocket(uint32(number), fd), unix.Close(fd)))
	}
	send()
	want("without a socket", func(s *Stats) uint64 { return s.NoSocket })
}
