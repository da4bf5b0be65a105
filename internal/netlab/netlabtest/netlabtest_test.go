package netlabtest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// TestNetworksEndWithTheirTest makes one of each in a test of its own.
func TestNetworksEndWithTheirTest(t *testing.T) {
	var made []*netlab.Namespace
	t.Run("networks", func(t *testing.T) {
		p, s := Pair(t, netlab.PairConfig{}), Star(t, netlab.StarConfig{})
		made = []*netlab.Namespace{Namespace(t), p.A, p.B, s.Hosts[0].NS, s.Hosts[1].NS}
		for i, n := range made {
			if err := n.Do(func() error { return nil }); err != nil {
				t.Errorf("namespace %d: %v", i, err)
			}
		}
	})
	for i, n := range made {
		if n.FD() != -1 {
			t.Errorf("namespace %d is still held", i)
		}
	}
}

func TestFreePortIsFree(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(FreePort(t))})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// Addresses are on the loopback interface, and no two tests get the same.
func TestLoopback(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for range 1000 {
		for _, addr := range Loopback() {
			if !addr.IsLoopback() || seen[addr] {
				t.Fatalf("%v, given before: %t", addr, seen[addr])
			}
			seen[addr] = true
		}
	}
}
