package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// foreseenAndOpened returns the forecast of Prospect for an interface, and what Open then opens, each with its reason.
func foreseenAndOpened(name string, cfg plan.Config) (p plan.Foreseen, i Info, err error) {
	nic, err := xdp.Inspect(name)
	if err != nil {
		return p, i, err
	}
	if p, err = plan.Prospect(&nic, cfg); err != nil {
		return p, i, fmt.Errorf("the prospect: %w", err)
	}
	d, err := Open(cfg)
	if err != nil {
		return p, i, fmt.Errorf("opening: %w", err)
	}
	return p, d.Info(), d.Close()
}

// TestForeseenIsOpened: Open opens what Prospect forecast for the interface and the process, and gives the same reason.
func TestForeseenIsOpened(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	addr := pair.AddrA.Addr()
	none := t.TempDir() // no broker
	for _, c := range []struct {
		name string
		cfg  plan.Config
		want plan.Datapath
	}{
		{"with all rights", plan.Config{Address: addr}, plan.TCX},
		{"on loopback", plan.Config{Address: netip.MustParseAddr("127.0.0.1")}, plan.UDP},
		{"generic", plan.Config{Address: addr, Datapath: plan.Generic}, plan.Generic},
		{"native", plan.Config{Address: addr, Datapath: plan.Native}, plan.Native},
		{"ring", plan.Config{Address: addr, Datapath: plan.Ring}, plan.Ring},
		{"udp", plan.Config{Address: addr, Datapath: plan.UDP}, plan.UDP},
	} {
		c.cfg.Brokers = none
		must(t, pair.A.Do(func() error {
			name := pair.NameA
			if c.cfg.Address.IsLoopback() {
				name = "lo"
			}
			sameAsForeseen(t, c.name, name, c.cfg, c.want)
			return nil
		}))
	}
	opened(t, pair, plan.Config{Datapath: plan.UDP})
	must(t, pair.A.Do(func() error {
		sameAsForeseen(t, "beside another adapter", pair.NameA, plan.Config{Address: addr, Brokers: none}, plan.Ring)
		return nil
	}))
}

func sameAsForeseen(t *testing.T, what, name string, cfg plan.Config, want plan.Datapath) {
	t.Helper()
	p, i, err := foreseenAndOpened(name, cfg)
	if err != nil || p.Datapath != i.Datapath || i.Datapath != want || p.Reason != i.Reason {
		t.Errorf("%s: %s (%s) was foreseen, %s (%s) opened, want %s: %v", what, p.Datapath, p.Reason, i.Datapath, i.Reason, want, err)
	}
}
