package nd

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// Everything moves with immediate placement too, and the adapter says that it does not write memory in order.
func TestImmediatePlacement(t *testing.T) {
	t.Parallel()
	r := &rig{addr: netlabtest.Loopback()}
	cfg := AdapterConfig{UDPPort: netlabtest.FreePort(t), Datapath: DatapathUDP, ImmediatePlacement: true}
	for i, a := range []**Adapter{&r.a, &r.b} {
		cfg.Address, cfg.ImmediatePlacement = r.addr[i], i == 0
		opened, err := OpenAdapter(cfg)
		must(t, err)
		t.Cleanup(func() { must(t, opened.Close()) })
		*a = opened
	}
	first, err := r.a.Query()
	must(t, err)
	second, err := r.b.Query()
	must(t, err)
	if first.Flags&AdapterInOrderDMA != 0 || second.Flags&AdapterInOrderDMA == 0 {
		t.Error("the flags do not tell how memory is written")
	}
	moveEverything(t, r)
}

// With a fixed window everything moves as well; windows out of bounds are refused.
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
