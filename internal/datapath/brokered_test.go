package datapath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestLendTerms requests what the terms do not allow. The request is refused before anything is opened.
func TestLendTerms(t *testing.T) {
	terms := Terms{Interface: "eth0", UDPPort: 14791, Datapath: plan.Generic}
	for _, c := range []struct{ datapath, want string }{
		{"fast", "unknown datapath"},
		{"udp", "need no broker"},
		{"native", "offers generic only"},
	} {
		r := broker.Request{Address: netip.MustParseAddr("192.0.2.1"), UDPPort: 14791, Datapath: c.datapath}
		if _, err := OpenBrokered(&r, terms); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.datapath, err, c.want)
		}
	}
	r := broker.Request{Address: netip.MustParseAddr("192.0.2.1"), UDPPort: 443, Datapath: "auto"}
	if _, err := OpenBrokered(&r, terms); err == nil || !strings.Contains(err.Error(), "UDP port 443 was asked for") {
		t.Errorf("another port: %v", err)
	}
}

// TestBrokerNeverUDP: an adapter with a configured broker never uses plain sockets, also if the broker does not exist.
func TestBrokerNeverUDP(t *testing.T) {
	cfg := plan.Config{Address: netip.MustParseAddr("127.0.0.1"), UDPPort: 14791, Broker: "/nonexistent"}
	for _, datapath := range []plan.Datapath{plan.Auto, plan.UDP} {
		cfg.Datapath = datapath
		if d, err := Open(cfg); err == nil {
			t.Errorf("%s: opened %+v", datapath, d.Info())
			d.Close()
		}
	}
}

// TestLendCopies: a client gets sockets in copy mode, so that it cannot see other programs' packets. If the terms allow zero-copy,
// the driver decides.
func TestLendCopies(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for allowed, want := range map[bool]string{false: "--zero-copy allows it", true: "refused zero-copy"} {
		r := broker.Request{Address: pair.AddrA.Addr(), UDPPort: 14791, Datapath: "native", Arena: 1 << 16}
		must(t, pair.A.Do(func() error {
			l, err := OpenBrokered(&r, Terms{Interface: pair.NameA, UDPPort: 14791, ZeroCopy: allowed})
			if err != nil {
				return err
			}
			if g, _ := l.Grant(); g.ZeroCopy || !strings.Contains(g.Copying, want) || g.Arena != 1<<16 {
				t.Errorf("zero-copy allowed: %t: %+v", allowed, g)
			}
			return l.Close()
		}))
	}
}
