package netlab

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func newStar(t *testing.T, cfg StarConfig) *Star {
	t.Helper()
	requireRoot(t)
	s, err := NewStar(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStarForwards(t *testing.T) {
	for name, cfg := range map[string]StarConfig{
		"defaults": {}, "IPv6 and jumbo frames": {Hosts: 3, MTU: 9000, IPv6: true}, "queues": {Queues: 2, Offloads: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStar(t, cfg)
			for i, from := range s.Hosts {
				for _, to := range s.Hosts[i+1:] {
					both := &Pair{A: from.NS, B: to.NS}
					exchange(t, both, from.Addr.Addr(), to.Addr.Addr())
					if cfg.IPv6 {
						exchange(t, both, from.Addr6.Addr(), to.Addr6.Addr())
					}
				}
			}
		})
	}
}

// dial opens a UDP socket from one host to a port of another that no socket needs to read.
func dial(t *testing.T, from, to *Host) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	err := from.NS.Do(func() (err error) {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr.Addr(), 9)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // written by this test alone
	return conn
}

// writeAnyway sends a datagram to a closed port. The host answers earlier datagrams with ICMP errors "port unreachable". A write
// that reports such an error sends nothing, so it is repeated.
func writeAnyway(t *testing.T, conn *net.UDPConn, datagram []byte) {
	t.Helper()
	for range 10 {
		if _, err := conn.Write(datagram); err == nil {
			return
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	t.Fatal("ten writes reported \"port unreachable\" and sent nothing")
}

func TestBottleneck(t *testing.T) {
	s := newStar(t, StarConfig{})
	const size = 1000 + 14 + 20 + 8
	if _, err := s.Backlog(1); !errors.Is(err, ErrNoBottleneck) {
		t.Errorf("backlog without a bottleneck: %v", err)
	}
	for _, b := range []Bottleneck{{Burst: 1500, Queue: 1500}, {BytesPerSec: 1, Burst: 1500, Queue: 1500}} {
		if err := s.SetBottleneck(1, b); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for host, queue := range []int{20 * size, 10 * size} {
		// The first bottleneck is replaced. The second passes ten packets a second, which is next to none during the test.
		for _, b := range []Bottleneck{{size, size, size}, {BytesPerSec: 10 * size, Burst: 2 * size, Queue: queue}} {
			if err := s.SetBottleneck(host, b); err != nil {
				t.Fatal(err)
			}
		}
		const sent = 100
		conn := dial(t, &s.Hosts[1-host], &s.Hosts[host])
		for range sent {
			writeAnyway(t, conn, make([]byte, 1000))
		}
		b := s.awaitPackets(t, host, sent)
		if b.Bytes > queue || b.Bytes < queue/2 || b.Dropped < sent/2 {
			t.Errorf("queue of %d bytes: %+v after %d packets", queue, b, sent)
		}
	}
}

// awaitPackets waits until a bottleneck has seen n packets.
func (s *Star) awaitPackets(t *testing.T, host, n int) Backlog {
	t.Helper()
	for limit := time.Now().Add(readyTimeout); ; {
		b, err := s.Backlog(host)
		if err != nil {
			t.Fatal(err)
		}
		if b.Sent+b.Dropped+b.Packets >= n || time.Now().After(limit) {
			return b
		}
	}
}

func TestStarSetMTU(t *testing.T) {
	s := newStar(t, StarConfig{MTU: 9000})
	if err := s.SetMTU(1, 9000, 1400); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, &s.Hosts[0], &s.Hosts[1])
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optErr error
	err = raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	})
	if err := errors.Join(err, optErr); err != nil {
		t.Fatal(err)
	}
	// The router's ICMP error makes a later write fail.
	for limit := time.Now().Add(readyTimeout); ; {
		if _, err := conn.Write(make([]byte, 2000)); errors.Is(err, unix.EMSGSIZE) {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("no \"packet too big\" from the router")
		}
	}
}

func TestStarNeighboursAreLearnt(t *testing.T) {
	s := newStar(t, StarConfig{})
	a, b := &s.Hosts[0], &s.Hosts[1]
	exchange(t, &Pair{A: a.NS, B: b.NS}, a.Addr.Addr(), b.Addr.Addr())
	for _, h := range s.Hosts {
		list, err := h.handle.NeighList(h.Ifindex, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || !list[0].IP.Equal(h.Gateway.AsSlice()) || list[0].State&netlink.NUD_PERMANENT != 0 {
			t.Errorf("neighbours of %s: %v, want the port's address alone, learnt", h.Addr, list)
		}
	}
}

func TestStarRefusesNonsense(t *testing.T) {
	requireRoot(t)
	for _, cfg := range []StarConfig{{Hosts: -1}, {Hosts: maxStarHosts + 1}, {MTU: 1 << 20}} {
		if s, err := NewStar(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
			_ = s.Close()
		}
	}
}

func TestStarCloseTwice(t *testing.T) {
	s := newStar(t, StarConfig{})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if leftovers, err := Leftovers(); err != nil || len(leftovers) > 0 {
		t.Errorf("left: %v, %v", leftovers, err)
	}
}
