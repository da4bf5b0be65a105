package follow

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// manyPaths is a device whose paths have no end.
type manyPaths struct{ Followed }

func (manyPaths) PortCount() int { return 1 }

func (manyPaths) Used(_, from int, _ map[netip.Addr]struct{}) int { return from + PathsAtOnce }

// If an adapter closes during a check of its many paths, the check ends. Otherwise the close would wait for it for ever, because
// the engines do not run any more.
func TestLookAtPathsEndsWithTheEngine(t *testing.T) {
	t.Parallel()
	looks := 3
	w := &Follower{
		state: NewState(ourIndex, ourAddr, ourLink()), device: manyPaths{}, Unseen: func() uint64 { return 1 }, peers: map[netip.Addr]struct{}{},
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
