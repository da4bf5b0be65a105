package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// requireRoot skips a test that cannot create namespaces, and reports what is missing.
func requireRoot(t *testing.T) {
	t.Helper()
	t.Attr("needs", "root")
	n, err := New()
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs root: CAP_SYS_ADMIN and CAP_NET_ADMIN to make network namespaces")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func newPair(t *testing.T, cfg PairConfig) *Pair {
	t.Helper()
	requireRoot(t)
	p, err := NewPair(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// exchange sends one datagram from A to B and back.
func exchange(t *testing.T, p *Pair, a, b netip.Addr) {
	t.Helper()
	listen := func(n *Namespace, addr netip.Addr) *net.UDPConn {
		var conn *net.UDPConn
		err := n.Do(func() (err error) {
			conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
			return err
		})
		if err != nil {
			t.Fatalf("listen on %s: %v", addr, err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // used by this test alone
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	connA, connB := listen(p.A, a), listen(p.B, b)
	buf := make([]byte, 100)
	for _, hop := range []struct{ from, to *net.UDPConn }{{connA, connB}, {connB, connA}} {
		if _, err := hop.from.WriteTo([]byte("over the wire"), hop.to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		n, _, err := hop.to.ReadFrom(buf)
		if err != nil || string(buf[:n]) != "over the wire" {
			t.Fatalf("read %q, %v", buf[:n], err)
		}
	}
}

func TestPairCarriesTraffic(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  PairConfig
	}{
		{"defaults", PairConfig{}},
		{"offloads", PairConfig{Offloads: true}},
		{"queues", PairConfig{Queues: 4, MTU: 9000}},
		{"static neighbours and IPv6", PairConfig{IPv6: true, StaticNeighbours: true}},
		{"largest MTU", PairConfig{MTU: 65535, NameA: "left", NameB: "right"}},
		{"receive packet steering", PairConfig{Queues: 2, RPSMask: "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t, test.cfg)
			exchange(t, p, p.AddrA.Addr(), p.AddrB.Addr())
			if p.Addr6A.IsValid() {
				exchange(t, p, p.Addr6A.Addr(), p.Addr6B.Addr())
			}
		})
	}
}

func TestPairStaysInsideItsNamespaces(t *testing.T) {
	p := newPair(t, PairConfig{NameA: "ndinside0", NameB: "ndinside1"})
	for _, name := range []string{p.NameA, p.NameB} {
		if _, err := net.InterfaceByName(name); err == nil {
			t.Errorf("%s is visible in the caller's namespace", name)
		}
	}
	links, err := p.handleB.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != 2 {
		t.Errorf("B has %d links, want lo and %s", len(links), p.NameB)
	}
}

func TestPairSettings(t *testing.T) {
	p := newPair(t, PairConfig{Queues: 3, MTU: 3498, RPSMask: "1"})
	if err := p.SetMTU(9000); err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct {
		handle *netlink.Handle
		index  int
	}{{p.handleA, p.IfindexA}, {p.handleB, p.IfindexB}} {
		link, err := h.handle.LinkByIndex(h.index)
		if err != nil {
			t.Fatal(err)
		}
		attrs := link.Attrs()
		if attrs.MTU != 9000 || attrs.NumRxQueues != 3 || attrs.NumTxQueues != 3 {
			t.Errorf("MTU %d, %d rx and %d tx queues; want 9000, 3, 3", attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues)
		}
	}
	if err := p.SetMTU(1 << 20); err == nil {
		t.Error("SetMTU took an MTU that veth does not have")
	}
	err := p.A.Do(func() error {
		sys, err := detachedSysfs()
		if err != nil {
			return err
		}
		defer unix.Close(sys)
		for queue := range 3 {
			path := fmt.Sprintf("devices/virtual/net/%s/queues/rx-%d/rps_cpus", p.NameA, queue)
			fd, err := unix.Openat(sys, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			file := os.NewFile(uintptr(fd), path)
			buf := make([]byte, 64)
			n, err := file.Read(buf)
			_ = file.Close() // the file was only read
			if err != nil || n == 0 || buf[n-2] != '1' {
				t.Errorf("queue %d: mask %q, %v", queue, buf[:n], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPairOffloadsAreOff(t *testing.T) {
	for _, offloads := range []bool{false, true} {
		t.Run(fmt.Sprintf("offloads %t", offloads), func(t *testing.T) {
			p := newPair(t, PairConfig{Offloads: offloads})
			got, err := activeFeatures(p.A, p.NameA)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"tx-checksum-ip-generic", "tx-tcp-segmentation", "rx-checksum"} {
				if got[name] != offloads {
					t.Errorf("%s is %t, want %t", name, got[name], offloads)
				}
			}
			if !offloads && got["rx-gro"] {
				t.Error("rx-gro is on")
			}
		})
	}
}

func TestPairRefusesNonsense(t *testing.T) {
	requireRoot(t)
	for _, cfg := range []PairConfig{
		{MTU: 1 << 20},
		{NameA: "a name that is far too long for a link"},
		{RPSMask: "zebra"},
	} {
		if p, err := NewPair(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
			_ = p.Close()
		} else {
			t.Log(err)
		}
	}
}

func TestPairCloseTwice(t *testing.T) {
	p := newPair(t, PairConfig{})
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if fd := p.A.FD(); fd != -1 {
		t.Errorf("FD is %d after Close", fd)
	}
	if err := p.A.Do(func() error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
}
