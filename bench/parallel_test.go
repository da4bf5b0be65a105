package bench

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestSeveralConnections runs tests on three connections at once, over plain sockets and over AF_XDP, sleeping and polling.
func TestSeveralConnections(t *testing.T) {
	for _, mode := range []string{ModePoll, ModeEvent} {
		specs, err := Plan([]Test{WriteBW, ReadBW, SendBW, WriteRate}, nil, Spec{Duration: 20 * time.Millisecond, Verify: true, Event: mode == ModeEvent})
		if err != nil {
			t.Fatal(err)
		}
		check := func(t *testing.T, got *collector) {
			if len(got.results) != len(specs) {
				t.Fatalf("%d results, want %d", len(got.results), len(specs))
			}
			for _, r := range got.results {
				if err := sane(r.Ops, r.Bytes, r.Seconds, r.Gbps, r.Mops, r.Test, r.LatUS); err != nil || r.Connections != 3 || !r.Verified || r.Mode != mode {
					t.Errorf("%+v: %v", r, err)
				}
			}
		}
		t.Run("udp/"+mode, func(t *testing.T) {
			port := netlabtest.FreePort(t)
			job := Job{Kind: KindND, Datapath: "udp", UDPPort: port, Specs: specs, Parallel: Parallel{Connections: 3}}
			job.Local.Addr, job.Peer.Addr = netip.MustParseAddrPort("127.0.0.41:9000"), netip.MustParseAddrPort("127.0.0.42:9000")
			check(t, runBoth(t, job, here, here))
		})
		t.Run("veth/"+mode, func(t *testing.T) {
			pair, job := newPair(t, netlab.PairConfig{MTU: 9000})
			job.Kind, job.Specs, job.Parallel = KindND, specs, Parallel{Connections: 3}
			check(t, runBoth(t, job, pair.A.Do, pair.B.Do))
		})
	}
}

// TestTogether: rates of connections are added, and a counter of the whole process that each connection recorded counts once.
func TestTogether(t *testing.T) {
	one := &Result{Ops: 10, Bytes: 100, Gbps: 1, Mops: 2, Seconds: 1, CPUUS: 8, AllocsPerOp: 4, Retransmits: 3, Resent: Resent{Lost: 3}, Verified: true}
	other := &Result{Ops: 10, Bytes: 100, Gbps: 3, Mops: 2, Seconds: 2, CPUUS: 8, AllocsPerOp: 4, Retransmits: 5, Resent: Resent{Probe: 5}}
	got := together([]*Result{one, other})
	if got.Ops != 20 || got.Bytes != 200 || got.Gbps != 4 || got.Mops != 4 || got.Seconds != 2 || got.CPUUS != 4 || got.AllocsPerOp != 2 ||
		got.Retransmits != 5 || got.Resent.Probe != 5 || got.Connections != 2 || got.Verified {
		t.Errorf("%+v", got)
	}
}

// TestTogetherOfUnequalShares: one of two connections did nine of ten operations. The cost of the process is divided by all ten
// operations.
func TestTogetherOfUnequalShares(t *testing.T) {
	const cpu, allocs = 900.0, 18.0 // of the process, as each connection recorded them
	var results []*Result
	for _, ops := range []uint64{90, 10} {
		results = append(results, &Result{Ops: ops, CPUUS: cpu / float64(ops), AllocsPerOp: allocs / float64(ops)})
	}
	if got := together(results); math.Abs(got.CPUUS-cpu/100) > 1e-9 || math.Abs(got.AllocsPerOp-allocs/100) > 1e-9 {
		t.Errorf("%g µs and %g allocations for an operation, want %g and %g", got.CPUUS, got.AllocsPerOp, cpu/100, allocs/100)
	}
}
