package bench

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestStreamsBesideTests: each test runs while streams transfer bytes on other connections of the same adapter, over plain sockets and
// over AF_XDP, sleeping and polling, one after the other.
func TestStreamsBesideTests(t *testing.T) {
	for _, mode := range []string{ModePoll, ModeEvent} {
		if raceEnabled && mode == ModePoll {
			continue // the race detector reports one-sided Writes, because memory changes while a program polls it
		}
		specs, err := Plan([]Test{WriteLat, SendLat, ReadBW}, nil, Spec{Duration: 20 * time.Millisecond, Verify: true, Event: mode == ModeEvent})
		if err != nil {
			t.Fatal(err)
		}
		check := func(t *testing.T, got *collector) {
			if len(got.results) != len(specs) {
				t.Fatalf("%d results, want %d", len(got.results), len(specs))
			}
			for i, r := range got.results {
				err := sane(r.Ops, r.Bytes, r.Seconds, r.Gbps, r.Mops, r.Test, r.LatUS)
				if err != nil || r.Test != specs[i].Test || r.Streams != 2 || r.StreamGbps <= 0 || r.Connections > 1 || !r.Verified || r.Mode != mode {
					t.Errorf("%+v: %v", r, err)
				}
			}
		}
		t.Run("udp/"+mode, func(t *testing.T) {
			job := Job{Kind: KindND, Datapath: "udp", UDPPort: netlabtest.FreePort(t), Specs: specs, Parallel: Parallel{Streams: 2}}
			job.Local.Addr, job.Peer.Addr = netip.MustParseAddrPort("127.0.0.45:9000"), netip.MustParseAddrPort("127.0.0.46:9000")
			check(t, runBoth(t, job, here, here))
		})
		t.Run("veth/"+mode, func(t *testing.T) {
			pair, job := newPair(t, netlab.PairConfig{MTU: 9000})
			job.Kind, job.Specs, job.Parallel = KindND, specs, Parallel{Streams: 2}
			check(t, runBoth(t, job, pair.A.Do, pair.B.Do))
		})
	}
}

// ratioOf returns the ratio of that name, or nil.
func ratioOf(r *Report, name string) *Ratio {
	for i := range r.Ratios {
		if r.Ratios[i].Name == name {
			return &r.Ratios[i]
		}
	}
	return nil
}

// TestStreamsAreHeldAgainstTheSameAlone: the 99th percentile beside one stream has a bound relative to the median alone. No other result
// beside streams has a bound.
func TestStreamsAreHeldAgainstTheSameAlone(t *testing.T) {
	alone := Result{Test: WriteLat, Size: 64, MTU: 1500, Mode: ModePoll, Datapath: "generic", LatIs: HalfRoundTrip, LatUS: &Latency{P50: 5, P99: 9}}
	beside := alone
	beside.Streams, beside.LatUS = 1, &Latency{P50: 20, P99: 60}
	r := NewReport()
	r.Results = []Result{beside, alone}
	r.SetRatios()
	x := ratioOf(r, "write_lat p99 beside 1 / p50 alone")
	if x == nil || x.Value != 12 || x.Bound == nil || x.OK {
		t.Fatalf("%+v", r.Ratios)
	}
	r.Results[0].Streams = 2
	if r.SetRatios(); ratioOf(r, "write_lat p99 beside 2 / p50 alone").Bound != nil {
		t.Error("two streams are held against the bound of one")
	}
	if len(r.Ratios) != 2 { // the allocations of the test that ran alone
		t.Errorf("%+v", r.Ratios)
	}
}

// TestStreamsByKernelSockets: with a bulk path, and over plain sockets at Ethernet's MTU, streams are compared with kernel TCP at the
// same MTU. AF_XDP alone is compared with raw.
func TestStreamsByKernelSockets(t *testing.T) {
	for _, c := range []struct {
		what  string
		of    Result
		name  string
		bound float64 // 0 for none
	}{
		{"lane", Result{Test: WriteBW, MTU: 1500, Datapath: "generic", Bulk: true}, "write_bw / best TCP, lane", 1.2},
		{"lane, reads", Result{Test: ReadBW, MTU: 1500, Datapath: "native", Bulk: true}, "read_bw / best TCP, lane", 1.2},
		{"lane, jumbo frames", Result{Test: SendBW, MTU: 9000, Datapath: "generic", Bulk: true}, "send_bw / best TCP, lane", 1.1},
		{"AF_XDP alone", Result{Test: WriteBW, MTU: 1500, Datapath: "generic"}, "write_bw / best TCP", 0},
		{"plain sockets", Result{Test: WriteBW, MTU: 1500, Datapath: "udp"}, "write_bw / best TCP", 1},
		{"plain sockets, jumbo frames", Result{Test: WriteBW, MTU: 9000, Datapath: "udp"}, "write_bw / best TCP", 0},
	} {
		r := NewReport()
		c.of.Size, c.of.Mode, c.of.Gbps, c.of.Ops = DefaultBWSize, ModePoll, 6, 1
		tcp := Baseline{Kind: KindTCP, Test: WriteBW, Size: DefaultBWSize, MTU: c.of.MTU, Gbps: 6}
		faster := tcp
		faster.MTU, faster.Gbps = 65000, 60
		r.Results, r.Baselines = []Result{c.of}, []Baseline{tcp, faster}
		r.SetRatios()
		x := ratioOf(r, c.name)
		if x == nil || x.Value != 1 || (x.Bound == nil) != (c.bound == 0) || x.Bound != nil && *x.Bound != c.bound {
			t.Errorf("%s: %+v", c.what, r.Ratios)
		}
	}
}
