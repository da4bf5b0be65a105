package datapath

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// manyPaths is a device whose paths have no end.
type manyPaths struct{ watched }

func (manyPaths) portCount() int { return 1 }

func (manyPaths) used(_, from int, _ map[netip.Addr]struct{}) int { return from + pathsAtOnce }

// An adapter that closes while somebody looks at its many paths runs nothing for its engines any more: the look ends, or closing would wait for it for ever.
func TestLookAtPathsEndsWithTheEngine(t *testing.T) {
	t.Parallel()
	looks := 3
	w := &watch{
		state: newNetState(ourIndex, ourAddr, ourLink()), device: manyPaths{}, unseen: func() uint64 { return 1 }, peers: map[netip.Addr]struct{}{},
		own: func(_ int, f func(*provider.Engine)) {
			if looks--; looks > 0 {
				f(nil)
			}
		},
	}
	done := make(chan struct{})
	go func() {
		w.meet()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}
