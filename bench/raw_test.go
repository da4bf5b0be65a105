package bench

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// newPair builds a veth pair and the job that runs over it, or skips without root.
func newPair(t testing.TB, cfg netlab.PairConfig) (*netlab.Pair, Job) {
	t.Helper()
	pair := netlabtest.Pair(t, cfg)
	return pair, Job{
		Local: End{
			Addr: netip.AddrPortFrom(pair.AddrA.Addr(), 9000), Interface: pair.NameA, Ifindex: pair.IfindexA,
			MAC: pair.MACA.String(),
		},
		Peer: End{
			Addr: netip.AddrPortFrom(pair.AddrB.Addr(), 9000), Interface: pair.NameB, Ifindex: pair.IfindexB,
			MAC: pair.MACB.String(),
		},
	}
}

// TestRawOverVeth covers packets of one and of several buffers, and both attach modes.
func TestRawOverVeth(t *testing.T) {
	for _, c := range []struct {
		name     string
		mtu      int
		datapath string
	}{
		{"single buffer, generic", 1500, "auto"},
		{"single buffer, native", 1500, "native"},
		{"multi-buffer, generic", 9000, "generic"},
		{"multi-buffer, native", 9000, "native"},
		{"largest packets", 65000, "auto"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair, job := newPair(t, netlab.PairConfig{MTU: c.mtu})
			job.Kind, job.Datapath = KindRaw, c.datapath
			job.Specs = []Spec{
				{Test: WriteLat, MTU: c.mtu, Duration: 10 * time.Millisecond},
				{Test: WriteBW, MTU: c.mtu, Duration: 30 * time.Millisecond},
				{Test: WriteBW, MTU: c.mtu, Duration: 30 * time.Millisecond, Raw: RawOptions{Refer: c.mtu > 1500}},
			}
			got := runBoth(t, job, pair.A.Do, pair.B.Do)
			if len(got.baselines) != 3 {
				t.Fatalf("%d baselines, want 3: %+v", len(got.baselines), got.baselines)
			}
			for _, b := range got.baselines {
				if err := sane(b.Ops, b.Bytes, b.Seconds, b.Gbps, b.Mops, b.Test, b.LatUS); err != nil {
					t.Errorf("%s: %v", b.Test, err)
				}
				t.Logf("%s: %.2f Gb/s %+v %s", b.Test, b.Gbps, b.LatUS, b.Note)
			}
		})
	}
}
