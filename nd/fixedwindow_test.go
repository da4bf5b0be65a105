package nd

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// With a fixed window all operations work. A window out of range is refused.
func TestFixedWindow(t *testing.T) {
	t.Parallel()
	cfg := AdapterConfig{Address: loopback[0], UDPPort: netlabtest.FreePort(t), Datapath: DatapathUDP}
	for _, cfg.FixedWindow = range []int{-1, maxFixedWindow + 1} {
		_, err := OpenAdapter(cfg)
		wantStatus(t, "open", err, ErrInvalidParameter)
	}
	r := &rig{addr: netlabtest.Loopback()}
	cfg.FixedWindow = 2
	for i, a := range []**Adapter{&r.a, &r.b} {
		cfg.Address = r.addr[i]
		opened, err := OpenAdapter(cfg)
		must(t, err)
		t.Cleanup(func() { must(t, opened.Close()) })
		*a = opened
	}
	moveEverything(t, r)
}
