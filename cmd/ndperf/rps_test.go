package main

import (
	"path/filepath"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestPacketSteeringIsForEveryDatapath: --rps affects the pair of nd, also over plain sockets, and not the pair of kernel TCP.
func TestPacketSteeringIsForEveryDatapath(t *testing.T) {
	netlabtest.NeedRoot(t)
	for _, datapath := range []string{"udp", "generic"} {
		file := filepath.Join(t.TempDir(), "report.json")
		runNdperf(t, "veth", "--datapath", datapath, "--rps", "2", "--mtu", "1500", "--tests", "write_lat", "--duration", "2ms", "--baseline", "tcp", "--json", file)
		r, err := readReport(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Pairs {
			if steered := p.RPSMask == "2"; steered != (p.For != "tcp") {
				t.Errorf("%s: the pair for %s has the mask %q", datapath, p.For, p.RPSMask)
			}
		}
		if len(r.Pairs) != 2 {
			t.Errorf("%s: pairs are %+v", datapath, r.Pairs)
		}
	}
}
