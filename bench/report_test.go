package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// sample is a complete report with invented figures.
func sample() *Report {
	lat := func(p50 float64) *Latency {
		return &Latency{Min: p50 * 0.9, P50: p50, P90: p50 * 1.1, P99: p50 * 2, P999: p50 * 5, Max: p50 * 50}
	}
	r := NewReport()
	r.Host = Host{Kernel: "6.18.0", CPU: "Example CPU", Cores: 2, Go: "go1.26", Commit: "0123456789ab"}
	r.Pairs = []Pair{{For: "nd,raw", MTU: 1500, Queues: 1}, {For: "tcp", MTU: 1500, Offloads: true, Queues: 1}}
	r.Results = []Result{
		{
			Test: WriteLat, Size: 64, MTU: 1500, Mode: ModePoll, Datapath: "generic", Ops: 100000, Bytes: 6400000, Seconds: 0.5,
			LatIs: HalfRoundTrip, LatUS: lat(2.5), Verified: true,
			PartsUS: &Parts{Queueing: 0.5, Wire: 3.5, RemoteHold: 1},
		},
		{
			Test: WriteBW, Size: 1 << 20, MTU: 1500, Mode: ModePoll, Datapath: "generic", Ops: 1000, Bytes: 1000 << 20, Seconds: 1,
			Retransmits: 3, Verified: true,
		},
		{
			Test: ReadBW, Size: 1 << 20, MTU: 1500, Mode: ModePoll, Datapath: "generic", Ops: 800, Bytes: 800 << 20, Seconds: 1,
			PartsUS: &Parts{Queueing: 1000, Wire: 50, RemoteHold: 300, Completion: 25}, Verified: true,
		},
		{
			Test: WriteRate, Size: 64, MTU: 1500, Mode: ModePoll, Datapath: "generic", Ops: 9000000, Bytes: 576000000, Seconds: 1,
			AllocsPerOp: 0.0000001, Verified: true,
		},
	}
	r.Baselines = []Baseline{
		{Kind: KindRaw, Test: WriteLat, Size: 64, MTU: 1500, Ops: 1000, Bytes: 64000, Seconds: 0.004, LatIs: HalfRoundTrip, LatUS: lat(2)},
		{Kind: KindTCP, Test: WriteLat, Size: 64, MTU: 1500, Ops: 1000, Bytes: 64000, Seconds: 0.06, LatIs: HalfRoundTrip, LatUS: lat(30)},
		{Kind: KindTCPSpin, Test: WriteLat, Size: 64, MTU: 1500, Ops: 1000, Bytes: 64000, Seconds: 0.01, LatIs: HalfRoundTrip, LatUS: lat(5)},
		{Kind: KindRaw, Test: WriteBW, Size: 1 << 20, MTU: 1500, Ops: 1100, Bytes: 1100 << 20, Seconds: 1},
		{Kind: KindTCP, Test: WriteBW, Size: 1 << 20, MTU: 1500, Ops: 2000, Bytes: 2000 << 20, Seconds: 1},
	}
	for i, over := range []string{OverND, OverTCP, OverTCP} {
		program := AppResult{Test: AppEcho, Connections: 16, Size: 64, MTU: 1500, Over: over, Pinned: i == 2, Verified: true}
		if over == OverND {
			program.Datapath = "generic"
		}
		for round := range 3 {
			f := float64(10 + i + 5*round)
			r.AddApp(program, AppRound{
				Seconds: 1, Ops: 1000, Bytes: 64000, PerSecond: 1e6 / f, Gbps: 0.5 / f, P50US: f, P99US: 2 * f, CPUUS: 3 * f, RequesterCPU: 60, ResponderCPU: 50,
			})
		}
	}
	for i := range r.Results {
		r.Results[i].setRate()
	}
	for i := range r.Baselines {
		r.Baselines[i].setRate()
	}
	r.SetRatios()
	return r
}

func TestReportGolden(t *testing.T) {
	var got bytes.Buffer
	if err := sample().WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.golden.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the JSON form changed; if it was meant to, run go test ./bench -update and raise Schema if a field "+
			"changed its meaning or went away. It is now:\n%s", got.Bytes())
	}
	back, err := ReadReport(&got)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Results) != 4 || back.Results[0].LatUS.P50 != 2.5 {
		t.Errorf("the report does not survive a round trip: %+v", back)
	}
}

func TestRatios(t *testing.T) {
	r := sample()
	ok := map[string]bool{}
	for _, x := range r.Ratios {
		ok[x.Name] = x.OK
	}
	for name, want := range map[string]bool{
		"write_lat p50 / raw":                true,
		"write_lat p99 / raw p99":            true,
		"write_lat p50 / tcp":                true,
		"write_lat p50 / tcp_spin":           true,
		"write_bw / raw":                     true,
		"write_bw / best TCP at any MTU":     true,
		"read_bw / write_bw":                 false,
		"write_rate, million a second":       true,
		"most allocations, of those allowed": true,
	} {
		got, found := ok[name]
		if !found || got != want {
			t.Errorf("ratio %q: ok %v (found %v), want %v; all: %v", name, got, found, want, ok)
		}
	}
}

// TestReadsAndSendsStandBesideRaw: half a round trip is compared with half of raw's, and a whole operation with a whole one.
func TestReadsAndSendsStandBesideRaw(t *testing.T) {
	r := NewReport()
	r.Results = []Result{
		{Test: SendLat, Size: 64, MTU: 9000, LatIs: HalfRoundTrip, LatUS: &Latency{P50: 3}},
		{Test: ReadLat, Size: 64, MTU: 9000, LatIs: WholeOp, LatUS: &Latency{P50: 5}},
	}
	r.Baselines = []Baseline{{Kind: KindRaw, Test: WriteLat, Size: 64, MTU: 9000, LatUS: &Latency{P50: 2}}}
	r.SetRatios()
	want := map[string]float64{"send_lat p50 / raw": 1.5, "read_lat p50 / raw there and back": 1.25}
	for _, x := range r.Ratios {
		if v, ok := want[x.Name]; ok && v == x.Value && x.Bound == nil && x.MTU == 9000 {
			delete(want, x.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing or different: %v in %+v", want, r.Ratios)
	}
}

func TestValidateReport(t *testing.T) {
	r := sample()
	if err := r.Validate(); err != nil {
		t.Errorf("a complete report is refused: %v", err)
	}
	if err := MissedBars(Bars([]*Report{r})); err == nil || !strings.Contains(err.Error(), "read_bw / write_bw") {
		t.Errorf("a missed bound is reported as %v", err)
	}
	for _, c := range []struct {
		want   string
		change func(*Report)
	}{
		{"schema", func(r *Report) { r.Schema = "ndperf/0" }},
		{"host", func(r *Report) { r.Host.Kernel = "" }},
		{"no results", func(r *Report) { r.Results, r.Apps = nil, nil }},
		{"not verified", func(r *Report) { r.Results[0].Verified = false }},
		{"datapath", func(r *Report) { r.Results[0].Datapath = "" }},
		{"lat_us is missing", func(r *Report) { r.Results[0].LatUS = nil }},
		{"not in ascending order", func(r *Report) { r.Results[0].LatUS.P50 = 0.1 }},
		{"dist is not in order", func(r *Report) { r.Results[0].LatUS.Dist = []Quantile{{50, 2}, {75, 1}} }},
		{"dist is not in order", func(r *Report) { r.Results[0].LatUS.Dist = []Quantile{{50, 2}, {101, 3}} }},
		{"dist has 257 points", func(r *Report) { r.Results[0].LatUS.Dist = make([]Quantile, 257) }},
		{"parts_us: wire is -1", func(r *Report) { r.Results[0].PartsUS.Wire = -1 }},
		{"the sum of all parts must be positive", func(r *Report) { r.Results[0].PartsUS = &Parts{} }},
		{"out of range", func(r *Report) { r.Results[0].Size = -1 }},
		{"out of range", func(r *Report) { r.Baselines[0].MTU = 1 << 20 }},
		{"no data was transferred", func(r *Report) { r.Results[1].Bytes = 0 }},
		{"must be positive", func(r *Report) { r.Baselines[3].Gbps = 0 }},
	} {
		r := sample()
		c.change(r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", err, c.want)
		}
	}
	if _, err := ReadReport(strings.NewReader(`{"schema":"ndperf/1","surprise":1}`)); err == nil {
		t.Error("an unknown field is accepted")
	}
}

func TestCaptureHost(t *testing.T) {
	h := CaptureHost()
	if h.Kernel == "" || h.CPU == "" || h.Cores < 1 || h.Go == "" || h.Commit == "" {
		t.Errorf("host is incomplete: %+v", h)
	}
}

// TestBarsJudgeMedians: the median of all runs must meet a bound, not the best run and not all runs. The worst run still meets its floor.
func TestBarsJudgeMedians(t *testing.T) {
	run := func(a, b float64) *Report {
		one, floor := 1.0, 0.1
		return &Report{Ratios: []Ratio{
			{Name: "a", Size: 64, MTU: 1500, Value: a, Bound: &one, Floor: &floor, Want: ">="},
			{Name: "b", Size: 64, MTU: 1500, Value: b, Bound: &one, Floor: &floor, Want: ">="},
			{Name: "for information", Size: 64, MTU: 1500, Value: 0.01},
		}}
	}
	bars := Bars([]*Report{run(0.5, 5), run(2, 0.2), run(1.5, 0.5)})
	if len(bars) != 2 || bars[0].Median() != 1.5 || bars[1].Median() != 0.5 || bars[0].Margin() != 0.5 || bars[1].Margin() != -0.5 {
		t.Errorf("%+v", bars)
	}
	if err := MissedBars(bars); err == nil || err.Error() != "b (64 B, MTU 1500) is 0.5, want >= 1" {
		t.Errorf("one bound of two is missed: %v", err)
	}
	if err := run(0.2, 0.1).MissedFloors(); err != nil {
		t.Errorf("no figure is beyond its floor: %v", err)
	}
	if err := run(0.05, 0.1).MissedFloors(); err == nil || err.Error() != "a (64 B, MTU 1500) is 0.05, want >= 0.1 on any machine" {
		t.Errorf("one figure is beyond its floor: %v", err)
	}
}

// TestRatiosStayOnTheirDatapath: a report of a sweep has several datapaths, and each is compared with raw on the same datapath.
func TestRatiosStayOnTheirDatapath(t *testing.T) {
	r := NewReport()
	for datapath, gbps := range map[string]float64{"generic": 8, "native": 6, "udp": 3} {
		r.Results = append(r.Results,
			Result{Test: WriteBW, Size: 1 << 20, MTU: 1500, Datapath: datapath, Gbps: gbps},
			Result{Test: ReadBW, Size: 1 << 20, MTU: 1500, Datapath: datapath, Gbps: gbps / 2})
	}
	r.Baselines = []Baseline{
		{Kind: KindRaw, Test: WriteBW, Size: 1 << 20, MTU: 1500, Datapath: "native", Gbps: 12},
		{Kind: KindRaw, Test: WriteBW, Size: 1 << 20, MTU: 1500, Datapath: "generic", Gbps: 10},
	}
	r.SetRatios()
	want := map[string]float64{
		"generic write_bw / raw": 0.8, "native write_bw / raw": 0.5, "udp write_bw / raw": 0.25,
		"generic read_bw / write_bw": 0.5, "native read_bw / write_bw": 0.5, "udp read_bw / write_bw": 0.5,
	}
	for _, x := range r.Ratios {
		if v, ok := want[x.Datapath+" "+x.Name]; ok && v == x.Value {
			delete(want, x.Datapath+" "+x.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing or different: %v in %+v", want, r.Ratios)
	}
	if err := MissedBars(Bars([]*Report{r})); err == nil || !strings.Contains(err.Error(), "over native") ||
		strings.Contains(err.Error(), "over udp") {
		t.Errorf("the error names another datapath than the one that missed: %v", err)
	}
}

// TestBoundsBelongToTheirSizes: a stream of small messages is judged by its message rate, and a large ping-pong by its bandwidth.
func TestBoundsBelongToTheirSizes(t *testing.T) {
	r := sample()
	for i := range r.Results {
		r.Results[i].Size = 4096
	}
	for i := range r.Baselines {
		r.Baselines[i].Size = 4096
	}
	r.SetRatios()
	found := 0
	for _, x := range r.Ratios {
		if x.Size == 4096 && (strings.Contains(x.Name, "raw") || strings.Contains(x.Name, "/ write_bw")) {
			found++
			if x.Bound != nil {
				t.Errorf("%s at 4 KiB has a bound", x.Name)
			}
		}
	}
	if found != 3 {
		t.Errorf("%d comparisons at 4 KiB, want 3: %+v", found, r.Ratios)
	}
}
