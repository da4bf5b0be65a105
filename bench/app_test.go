package bench

import (
	"strings"
	"testing"
)

// addProgram adds a result with rounds of these p50, in µs. The other figures follow from p50.
func addProgram(r *Report, x AppResult, p50 ...float64) {
	x.Size, x.MTU, x.Verified = 64, max(x.MTU, 1500), true
	for _, f := range p50 {
		r.AddApp(x, AppRound{Seconds: 1, Ops: 10, Bytes: 640, PerSecond: 1e6 / f, Gbps: 1 / f, P50US: f, P99US: 2 * f, CPUUS: f})
	}
}

func ratiosByName(r *Report) map[string]Ratio {
	r.SetRatios()
	by := map[string]Ratio{}
	for _, x := range r.Ratios {
		by[x.Name] = x
	}
	return by
}

// TestProgramsAreHeldAgainstTheBetterTCP: figures are medians of the rounds, and each is compared with the better TCP result, pinned or
// not.
func TestProgramsAreHeldAgainstTheBetterTCP(t *testing.T) {
	r := NewReport()
	addProgram(r, AppResult{Test: AppEcho, Connections: 16, Over: OverND, Datapath: "generic"}, 30, 1000, 20)
	addProgram(r, AppResult{Test: AppEcho, Connections: 16, Over: OverND, Datapath: "generic", Pinned: true}, 10)
	addProgram(r, AppResult{Test: AppEcho, Connections: 16, Over: OverTCP}, 20)
	addProgram(r, AppResult{Test: AppEcho, Connections: 16, Over: OverTCP, Pinned: true}, 15, 60, 1)
	addProgram(r, AppResult{Test: AppEcho, Connections: 1, Over: OverTCP}, 1) // a result with another number of connections
	addProgram(r, AppResult{Test: AppEcho, Connections: 16, Over: OverTCP, Encrypted: true}, 1)
	by := ratiosByName(r)
	for name, want := range map[string]struct {
		value   float64
		ok, bar bool
	}{
		"echo 16 p50 / tcp":          {2, false, true},
		"echo 16 p50 / tcp, pinned":  {10.0 / 15, true, true},
		"echo 16 rate / tcp":         {0.5, false, true},
		"echo 16 rate / tcp, pinned": {1.5, true, true},
		"echo 16 CPU / tcp":          {2, true, false},
	} {
		x := by[name]
		if d := x.Value - want.value; d > 1e-9 || d < -1e-9 || x.OK != want.ok || (x.Bound != nil) != want.bar {
			t.Errorf("%s: %+v, want %+v", name, x, want)
		}
	}
	if got := r.Apps[0]; got.Ops != 30 || got.Seconds != 3 || len(got.Rounds) != 3 {
		t.Errorf("three rounds add up to %+v", got.AppRound)
	}
	if bars := Bars([]*Report{r}); len(bars) != 4 {
		t.Errorf("%d bars, want 4: %v", len(bars), bars)
	}
}

// TestBoundsOfPrograms checks which programs have a bound, and which bound.
func TestBoundsOfPrograms(t *testing.T) {
	bound := func(beside int, x AppResult) string {
		r := NewReport()
		r.Beside = beside
		addProgram(r, x, 10)
		x.Over, x.Datapath = OverTCP, ""
		addProgram(r, x, 10)
		var bounded []string
		r.SetRatios()
		for _, b := range Bars([]*Report{r}) {
			bounded = append(bounded, b.Name+" "+b.Want+" "+FormatSize(int(b.Bound*10)))
		}
		return strings.Join(bounded, "; ")
	}
	for _, c := range []struct {
		beside int
		x      AppResult
		want   string
	}{
		{0, AppResult{Test: AppEcho, Connections: 1, Over: OverND, Datapath: "udp"}, "echo 1 p50 / tcp <= 12 B"},
		{0, AppResult{Test: AppHTTP, Connections: 16, Over: OverND, Datapath: "native"}, "http 16 rate / tcp >= 10 B"},
		{0, AppResult{Test: AppGRPC, Connections: 1, Over: OverND, Datapath: "native"}, ""},
		{0, AppResult{Test: AppStream, Connections: 1, Over: OverND, Datapath: "generic"}, ""},
		{0, AppResult{Test: AppStream, Connections: 1, MTU: 9000, Over: OverND, Datapath: "generic"}, "stream 1 rate / tcp >= 10 B"},
		{0, AppResult{Test: AppStream, Connections: 1, Over: OverND, Datapath: "udp"}, "stream 1 rate / tcp >= 8 B"},
		{0, AppResult{Test: AppIdle, Connections: 1000, Over: OverND, Datapath: "generic"}, "idle 1000 CPU percent <= 2 B"},
		{2, AppResult{Test: AppEcho, Connections: 1, Over: OverND, Datapath: "generic"}, ""},
		{0, AppResult{Test: AppOpen, Connections: 16, Over: OverND, Datapath: "tcx"}, ""},
		{0, AppResult{Test: AppEcho, Connections: 1, Over: OverND, Datapath: "tcx", Encrypted: true}, "echo 1 p50 / crypto/tls <= 7 B"},
		{0, AppResult{Test: AppEcho, Connections: 16, Over: OverND, Datapath: "tcx", Encrypted: true}, ""},
		{0, AppResult{Test: AppHTTP, Connections: 16, Over: OverND, Datapath: "tcx", Encrypted: true}, "http 16 rate / crypto/tls >= 10 B"},
		{0, AppResult{Test: AppStream, Connections: 1, Over: OverND, Datapath: "tcx", Encrypted: true}, "stream 1 rate / crypto/tls >= 8 B"},
		{0, AppResult{Test: AppOpen, Connections: 16, Over: OverND, Datapath: "tcx", Encrypted: true}, "open 16 rate / crypto/tls >= 8 B"},
	} {
		if got := bound(c.beside, c.x); got != c.want {
			t.Errorf("%s over %s, %d beside: %q, want %q", c.x.Test, c.x.By(), c.beside, got, c.want)
		}
	}
}

// TestStreamsAreHeldAgainstTLSOverND: an encrypted stream is compared with the better stream of crypto/tls over ND, apart from TCP.
func TestStreamsAreHeldAgainstTLSOverND(t *testing.T) {
	r := NewReport()
	stream := func(over, datapath string, pinned bool, p50 float64) {
		addProgram(r, AppResult{Test: AppStream, Connections: 1, Over: over, Datapath: datapath, Encrypted: true, Pinned: pinned}, p50)
	}
	stream(OverND, "tcx", false, 10)
	stream(OverND, "tcx", true, 20)
	stream(OverTCP, "", false, 10)
	stream(OverNDTLS, "tcx", false, 40)
	stream(OverNDTLS, "tcx", true, 20)
	by := ratiosByName(r)
	for name, want := range map[string]float64{
		"stream 1 rate / crypto/tls over nd": 2, "stream 1 rate / crypto/tls over nd, pinned": 1, "stream 1 rate / crypto/tls": 1,
	} {
		if x := by[name]; x.Value != want || x.Bound == nil || x.OK != (x.Value >= *x.Bound) {
			t.Errorf("%s: %+v, want %g", name, x, want)
		}
	}
	if len(by) != 2*(3+1) { // of TCP the time, the rate and the CPU; of TLS over ND the rate
		t.Errorf("%d ratios: %v", len(by), by)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// TestReportWithoutAProgramsFigures: validate refuses incomplete reports.
func TestReportWithoutAProgramsFigures(t *testing.T) {
	for name, spoil := range map[string]func(*AppResult){
		"no rounds":      func(x *AppResult) { x.Rounds = nil },
		"no connections": func(x *AppResult) { x.Connections = 0 },
		"no transport":   func(x *AppResult) { x.Over = "pigeons" },
		"no datapath":    func(x *AppResult) { x.Over = OverND },
		"unverified":     func(x *AppResult) { x.Verified = false },
		"nothing moved":  func(x *AppResult) { x.Rounds[0].Ops = 0 },
		"no latency":     func(x *AppResult) { x.P50US = 0 },
		"negative CPU":   func(x *AppResult) { x.CPUUS = -1 },
		"no size":        func(x *AppResult) { x.Size = 0 },
	} {
		r := NewReport()
		addProgram(r, AppResult{Test: AppEcho, Connections: 1, Over: OverTCP}, 10)
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&r.Apps[0])
		if r.Validate() == nil {
			t.Errorf("%s: the report is valid", name)
		}
	}
}

// TestSidesOfAProgram: the processor time of an operation is the sum of both sides.
func TestSidesOfAProgram(t *testing.T) {
	a := AppSide{Role: Requester, Ops: 4, Bytes: 256, Seconds: 2, LatUS: &Latency{P50: 3, P99: 4}, CPU: 2e9, CPUElapsed: 4e9}
	b := AppSide{Role: Responder, CPU: 1e9, CPUElapsed: 4e9}
	got := JoinApp(a, b)
	if got.CPUUS != 750_000 || got.RequesterCPU != 50 || got.ResponderCPU != 25 || got.PerSecond != 2 || got.P50US != 3 || got.P99US != 4 {
		t.Errorf("%+v", got)
	}
}
