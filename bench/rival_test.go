package bench

import (
	"maps"
	"testing"
	"time"
)

// TestBestVariantCounts: the best median wins, not the best round, and the report also has the medians of all other variants. For streams
// all ways to read TCP are one rival. For latency each way is a rival.
func TestBestVariantCounts(t *testing.T) {
	var rounds []Baseline
	add := func(kind string, test Test, variant string, figures ...float64) {
		for _, v := range figures {
			b := Baseline{Kind: kind, Test: test, Size: 64, MTU: 1500, Variant: variant, Gbps: v}
			if test == WriteLat {
				b.LatUS, b.Gbps = &Latency{P50: v}, 0.01
			}
			rounds = append(rounds, b)
		}
	}
	add(KindRaw, WriteBW, "generic", 8, 9, 8.5)
	add(KindRaw, WriteBW, "native", 2, 3, 12)
	add(KindTCP, WriteBW, "pinned", 20, 21, 22)
	add(KindTCPSpin, WriteBW, "unpinned", 30, 29, 31)
	add(KindTCP, WriteLat, "pinned", 30, 31, 29)
	add(KindTCP, WriteLat, "unpinned", 12, 90, 13)
	add(KindTCPSpin, WriteLat, "pinned", 4, 5, 6)
	got := map[string]Baseline{}
	for _, b := range Best(rounds) {
		got[b.Kind+" "+string(b.Test)] = b
	}
	for _, want := range []Baseline{
		{Kind: KindRaw, Test: WriteBW, Variant: "generic", Gbps: 8.5, Variants: make([]VariantFigure, 2)},
		{Kind: KindTCPSpin, Test: WriteBW, Variant: "unpinned", Gbps: 30, Variants: make([]VariantFigure, 2)},
		{Kind: KindTCP, Test: WriteLat, Variant: "unpinned", LatUS: &Latency{P50: 13}, Variants: make([]VariantFigure, 2)},
		{Kind: KindTCPSpin, Test: WriteLat, Variant: "pinned", LatUS: &Latency{P50: 5}, Variants: make([]VariantFigure, 1)},
	} {
		b, ok := got[want.Kind+" "+string(want.Test)]
		if !ok || b.Variant != want.Variant || len(b.Variants) != len(want.Variants) ||
			want.LatUS == nil && b.Gbps != want.Gbps || want.LatUS != nil && b.LatUS.P50 != want.LatUS.P50 {
			t.Errorf("got %+v, want %+v", b, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d rivals: %+v", len(got), got)
	}
}

// TestRivalsTryEveryVariant: kernel TCP runs pinned and not, blocking and spinning. Raw runs on both datapaths, with every batch size,
// and by reference exactly where nd sends by reference.
func TestRivalsTryEveryVariant(t *testing.T) {
	for mtu, want := range map[int]int{1500: 6, 9000: 12} {
		specs := []Spec{{Test: WriteLat, Size: 64, MTU: mtu}, {Test: WriteBW, Size: 1 << 20, MTU: mtu, Duration: time.Second}, {Test: SendBW, Size: 1 << 20, MTU: mtu}}
		names := map[string]int{}
		for _, j := range Rivals(specs, true, PlainTCP) {
			for _, s := range j.Specs {
				if s.Test != WriteLat && s.Test != WriteBW || s.Duration > time.Second/rivalShare {
					t.Errorf("%s runs %+v", j.Kind, s)
				}
				if s.Test == WriteBW {
					names[j.Kind+", "+j.variantOf(s, j.Datapath)]++
				}
			}
		}
		if len(names) != want+4 {
			t.Errorf("MTU %d: %d variants of streams, want %d of raw and 4 of TCP: %v", mtu, len(names), want, names)
		}
		for name, n := range names {
			if n != rivalRounds {
				t.Errorf("%s runs %d rounds", name, n)
			}
		}
	}
}

// TestEncryptedStreamsMeetEncryptedTCP: the rival is crypto/tls over TCP, and nothing else judges an encrypted stream.
func TestEncryptedStreamsMeetEncryptedTCP(t *testing.T) {
	for _, j := range Rivals([]Spec{{Test: WriteLat, Size: 64}, {Test: SendLat, Size: 64, Event: true}, {Test: WriteBW, Size: 1 << 20}}, false, EncryptedTCP) {
		if j.Kind != KindTCPTLS || len(j.Specs) != 2 {
			t.Errorf("a rival is %s, with %d specs", j.Kind, len(j.Specs))
		}
	}
	r := NewReport()
	r.Results = []Result{
		{Test: WriteLat, Mode: ModePoll, Size: 64, MTU: 1500, Datapath: "tcx", Encrypted: true, LatIs: HalfRoundTrip, LatUS: &Latency{P50: 9, P99: 9}, Ops: 1e6},
		{Test: WriteBW, Mode: ModePoll, Size: 1 << 20, MTU: 1500, Datapath: "tcx", Encrypted: true, Bulk: true, Gbps: 7, Ops: 1e6},
		{Test: ReadBW, Mode: ModePoll, Size: 1 << 20, MTU: 1500, Datapath: "tcx", Encrypted: true, Bulk: true, Gbps: 1, Ops: 1e6},
	}
	for _, kind := range []string{KindRaw, KindTCP, KindTCPTLS} {
		r.Baselines = append(r.Baselines, Baseline{Kind: kind, Test: WriteLat, Size: 64, MTU: 1500, LatUS: &Latency{P50: 1, P99: 1}})
	}
	r.Baselines = append(r.Baselines,
		Baseline{Kind: KindRaw, Test: WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 99}, Baseline{Kind: KindTCP, Test: WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 40},
		Baseline{Kind: KindTCPTLS, Test: WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 10})
	r.SetRatios()
	got := map[string]float64{}
	for _, x := range r.Ratios {
		if x.Bound != nil && x.MTU > 0 {
			got[x.Name] = x.Value
		}
	}
	if want := map[string]float64{"write_bw / crypto/tls, lane, encrypted": 0.7}; !maps.Equal(got, want) {
		t.Errorf("bounded figures are %v, want %v", got, want)
	}
}

// TestSleepingSendHasRivalsThatSleep: the rivals sleep in Go's poller and in a system call, pinned and not. A polling Send has no such
// rival. Streams of every kind have the same rival.
func TestSleepingSendHasRivalsThatSleep(t *testing.T) {
	specs := []Spec{{Test: SendLat, Size: 64, MTU: 1500, Event: true}, {Test: SendLat, Size: 64, MTU: 1500}, {Test: ReadBW, Size: 4096}, {Test: SendBW, Size: 4096}}
	ran := map[string]int{}
	for _, j := range Rivals(specs, true, PlainTCP) {
		for _, s := range j.Specs {
			if j.Kind != KindRaw {
				ran[j.Kind+" "+string(s.Test)+" "+j.variantOf(s, "")]++
			}
		}
	}
	want := map[string]int{}
	for _, of := range []string{KindTCP + " send_lat", KindTCPBlock + " send_lat", KindTCP + " write_bw", KindTCPSpin + " write_bw"} {
		want[of+" pinned"], want[of+" unpinned"] = rivalRounds, rivalRounds
	}
	if !maps.Equal(ran, want) {
		t.Errorf("rivals are %v, want %v", ran, want)
	}
}

// TestBoundsAsleepAndBeside: a Send to a sleeping receiver is compared with TCP in system calls, in time and in processor time. Beside
// busy processes only streams have a bound, which is a different one.
func TestBoundsAsleepAndBeside(t *testing.T) {
	r := NewReport()
	r.Results = []Result{
		{
			Test: SendLat, Mode: ModeEvent, Size: 64, MTU: 1500, Datapath: "generic", LatIs: HalfRoundTrip,
			LatUS: &Latency{P50: 20, P99: 20}, CPUUS: 30, Ops: 1e6,
		},
		{
			Test: SendLat, Mode: ModeEvent, Size: 64, MTU: 1500, Datapath: "generic", LatIs: HalfRoundTrip, Unpinned: true,
			LatUS: &Latency{P50: 9, P99: 40}, CPUUS: 20, Ops: 1e6,
		},
		{Test: SendBW, Mode: ModePoll, Size: 1 << 20, MTU: 1500, Datapath: "generic", Gbps: 6, Ops: 1e6},
	}
	r.Baselines = []Baseline{
		{Kind: KindTCP, Test: SendLat, Size: 64, MTU: 1500, LatUS: &Latency{P50: 5, P99: 5}, CPUUS: 1},
		{Kind: KindTCPBlock, Test: SendLat, Size: 64, MTU: 1500, LatUS: &Latency{P50: 10, P99: 20}, CPUUS: 20},
		{Kind: KindTCP, Test: WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 10},
		{Kind: KindTCP, Test: WriteBW, Size: 1 << 20, MTU: 9000, Gbps: 40},
	}
	for beside, want := range map[int]map[string]bool{
		0: {
			"send_lat asleep p50 / tcp_block": false, "send_lat asleep p99 / tcp_block": true, "send_lat asleep CPU / tcp_block": false,
			"send_lat asleep p50 / tcp_block, unpinned": true, "send_lat asleep p99 / tcp_block, unpinned": false, "send_lat asleep CPU / tcp_block, unpinned": true,
		},
		2: {"send_bw / best TCP, 2 beside": false},
	} {
		r.Beside = beside
		r.SetRatios()
		got := map[string]bool{}
		for _, x := range r.Ratios {
			if x.Bound != nil && x.MTU > 0 {
				got[x.Name] = x.OK
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d beside: bounds are %v, want %v", beside, got, want)
		}
	}
}
