package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// foreseenAndOpened says what Prospect foresees on an interface, and what Open then opens, each with its reason.
func foreseenAndOpened(name string, cfg Config) (p Foreseen, i Info, err error) {
	nic, err := xdp.Inspect(name)
	if err != nil {
		return p, i, err
	}
	if p, err = Prospect(&nic, cfg); err != nil {
		return p, i, fmt.Errorf("the prospect: %w", err)
	}
	d, err := Open(cfg)
	if err != nil {
		return p, i, fmt.Errorf("opening: %w", err)
	}
	return p, d.Info(), d.Close()
}

// TestForeseenIsOpened: what Prospect says of an interface and a process is what is opened, and for the same reason.
func TestForeseenIsOpened(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	addr := pair.AddrA.Addr()
	none := t.TempDir() // no broker
	for _, c := range []struct {
		name string
		cfg  Config
		want Rung
	}{
		{"with all rights", Config{Address: addr}, RungTCX},
		{"on loopback", Config{Address: netip.MustParseAddr("127.0.0.1")}, RungUDP},
		{"generic", Config{Address: addr, Rung: RungGeneric}, RungGeneric},
		{"native", Config{Address: addr, Rung: RungNative}, RungNative},
		{"ring", Config{Address: addr, Rung: RungRing}, RungRing},
		{"udp", Config{Address: addr, Rung: RungUDP}, RungUDP},
	} {
		c.cfg.brokers = none
		must(t, pair.A.Do(func() error {
			name := pair.NameA
			if c.cfg.Address.IsLoopback() {
				name = "lo"
			}
			sameAsForeseen(t, c.name, name, c.cfg, c.want)
			return nil
		}))
	}
	opened(t, pair, Config{Rung: RungUDP})
	must(t, pair.A.Do(func() error {
		sameAsForeseen(t, "beside another adapter", pair.NameA, Config{Address: addr, brokers: none}, RungRing)
		return nil
	}))
}

func sameAsForeseen(t *testing.T, what, name string, cfg Config, want Rung) {
	t.Helper()
	p, i, err := foreseenAndOpened(name, cfg)
	if err != nil || p.Rung != i.Rung || i.Rung != want || p.Reason != i.Reason {
		t.Errorf("%s: %s (%s) was foreseen, %s (%s) opened, want %s: %v", what, p.Rung, p.Reason, i.Rung, i.Reason, want, err)
	}
}
