package netlabtest

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// TestNetworksEndWithTheirTest makes each kind of network in a subtest of its own.
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
