package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// golden reads the sample report of package bench and adds the fields that older files lack.
func golden(t *testing.T) *bench.Report {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "report.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.ReadReport(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Results {
		if l := r.Results[i].LatUS; l != nil {
			l.Dist = []bench.Quantile{{Percent: 0, US: l.Min}, {Percent: 50, US: l.P50}, {Percent: 99, US: l.P99}, {Percent: 100, US: l.Max}}
		}
	}
	return r
}

// sweepSizes are the sizes of the sample sweep.
var sweepSizes = []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

// sweep makes a sample report over many sizes.
func sweep(t *testing.T) *bench.Report {
	t.Helper()
	r := golden(t)
	results, baselines := r.Results, r.Baselines
	r.Results, r.Baselines = nil, nil
	for i, size := range sweepSizes {
		for _, x := range results {
			x.Size, x.Gbps = size, float64(i+1)
			r.Results = append(r.Results, x)
		}
		for _, b := range baselines {
			b.Size, b.Gbps = size, float64(i+1)
			r.Baselines = append(r.Baselines, b)
		}
	}
	return r
}

func render(t *testing.T, sources ...Source) string {
	t.Helper()
	var out bytes.Buffer
	if err := Render(&out, sources); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPageStructure: the page has sections, tables with captions, and a text for every plot.
func TestPageStructure(t *testing.T) {
	html := render(t, Source{"one.json", sweep(t)})
	for _, want := range []string{
		`<html lang="en">`, `<title>ndperf report</title>`, `id="environment"`, `id="bounds"`, `id="plots"`, `id="programs"`, `<th scope="row">echo</th><td class="n">16</td><td>tcp, pinned</td>`, `id="figures"`,
		`id="plot-write_lat-distribution-1500"`, `id="plot-bandwidth-generic-1500"`, "Example CPU, 2 cores", "6.18.0", "0123456789ab",
		`<span class="missed">MISSED</span>`, `<span class="met">met</span>`, "prefers-color-scheme:dark", "@media print", "&lt;= 1.35",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(html, "<img "); n < 2 || n != strings.Count(html, ` alt="`) {
		t.Errorf("%d plots, %d descriptions", n, strings.Count(html, ` alt="`))
	}
	if strings.Count(html, "<table>") != strings.Count(html, "<caption>") {
		t.Error("a table has no caption")
	}
	for _, bad := range []string{"http://", "https://", "<script", "ZgotmplZ", `id="comparison"`} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// TestBars: each bar is complete, in the order of the columns, and has a text that says what it shows.
func TestBars(t *testing.T) {
	html := render(t, Source{"one.json", golden(t)})
	for _, want := range []string{
		`aria-label="queueing 10 %, wire 70 %, remote hold 20 %"><rect x="0.00" width="10.00" height="1" class="p0"/>` +
			`<rect x="10.00" width="70.00" height="1" class="p1"/><rect x="80.00" width="20.00" height="1" class="p2"/></svg>`,
		`<td class="n">1000.00</td><td class="n">50.00</td><td class="n">300.00</td><td class="n">25.00</td><td class="n">1375.00</td>`,
		`<td colspan="6">not recorded</td>`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(html, `<svg class="bar"`); n != 2 {
		t.Errorf("%d bars, want one for each of the two results that have parts", n)
	}
}

// TestComparison: less latency is better, more bandwidth is better, and a difference of 5 % is none.
func TestComparison(t *testing.T) {
	before, after := golden(t), golden(t)
	after.Results[0].LatUS.P50 /= 2
	after.Results[1].Gbps /= 2
	after.Results[2].Gbps *= 1.04
	after.Apps[0].PerSecond *= 2
	html := render(t, Source{"before.json", before}, Source{"after.json", after})
	for _, want := range []string{`id="comparison"`, "B: after.json", `<summary>2 better, <span class="worse">1 worse</span>, `} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if html := render(t, Source{"before.json", before}, Source{"before.json", before}); !strings.Contains(html, `<summary>0 better, <span class="">0 worse</span>, `) {
		t.Error("the page does not say that nothing changed")
	}
	verdicts := map[string]string{}
	for _, c := range compare([]Source{{"a", before}, {"b", after}}) {
		verdicts[c.What] = c.Verdict + " " + c.Ratio
	}
	for what, want := range map[string]string{
		"nd generic, write_lat, 64 B, MTU 1500": "better 0.500", "nd generic, write_bw, 1 MiB, MTU 1500": "worse 0.500",
		"nd generic, read_bw, 1 MiB, MTU 1500": "same 1.040", "raw, write_bw, 1 MiB, MTU 1500": "same 1.000",
		"echo 16 over nd generic, MTU 1500": "better 2.000", "echo 16 over tcp, MTU 1500": "same 1.000",
	} {
		if verdicts[what] != want {
			t.Errorf("%s: %q, want %q (all: %v)", what, verdicts[what], want, verdicts)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	other := golden(t)
	other.Apps = nil
	for i := range other.Results {
		other.Results[i].MTU = 9000
	}
	for i := range other.Baselines {
		other.Baselines[i].MTU = 9000
	}
	one := Source{"one.json", golden(t)}
	for want, sources := range map[string][]Source{
		"1 to 4 reports":           nil,
		"not 5":                    slices.Repeat([]Source{one}, 5),
		"no measurement in common": {one, {"other.json", other}},
	} {
		if err := Render(io.Discard, sources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// hostile is a report whose every text tries to inject markup.
func hostile(t *testing.T) Source {
	t.Helper()
	const evil = `"><script>document.title='owned'</script><img src=x onerror="document.title='owned'">]]></text>../../x`
	r := golden(t)
	r.Host.CPU, r.Host.Kernel, r.Host.Commit, r.Command = evil, evil, evil, evil
	r.Ratios[0].Name, r.Ratios[0].Want, r.Pairs[0].RPSMask = evil, evil, evil
	for i := range r.Results {
		r.Results[i].Datapath, r.Results[i].Mode = evil, evil
	}
	r.Baselines[0].Kind, r.Baselines[0].LatIs = evil, evil
	return Source{evil, r}
}

// TestHostileReport: text of a report stays text, in the page, in the plots and in file names.
func TestHostileReport(t *testing.T) {
	s := hostile(t)
	html := render(t, s)
	if strings.Contains(html, "<script") || strings.Contains(html, "<img src=x") {
		t.Error("text from the report became markup")
	}
	figures, err := Figures([]Source{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		if strings.ContainsAny(f.Name, "./<>\"' ") {
			t.Errorf("a file would be called %q", f.Name)
		}
		dec := xml.NewDecoder(bytes.NewReader(f.SVG))
		for {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is no XML: %v", f.Name, err)
			}
			if e, ok := tok.(xml.StartElement); ok && !slices.Contains([]string{"svg", "g", "path", "text", "title", "desc", "style", "rect"}, e.Name.Local) {
				t.Errorf("%s has an element %s", f.Name, e.Name.Local)
			}
		}
	}
}

// TestPageWithoutTests: reports about connections or registration have their own tables and tiles, and no empty ones.
func TestPageWithoutTests(t *testing.T) {
	lat := &bench.Latency{Min: 1, P50: 21.5, P99: 3, Max: 4}
	connections, registrations, programs := golden(t), golden(t), golden(t)
	for _, r := range []*bench.Report{connections, registrations, programs} {
		r.Results, r.Baselines, r.Apps, r.Connections, r.Registrations = nil, nil, nil, nil, nil
	}
	connections.Connections = []bench.ConnSide{
		{Role: bench.Requester, Connections: 10000, Datapath: "generic", PerSecond: 18600, ConnectUS: lat, QueueBytes: 786, OtherBytes: 984, IdleCPU: 0.25, CloseSeconds: 1},
		{Role: bench.Responder, Connections: 10000, Datapath: "generic", PerSecond: 18600, QueueBytes: 786, OtherBytes: 915},
	}
	registrations.Registrations = []bench.Registration{
		{What: bench.AllocateMemory, Size: 1 << 24, Datapath: "udp", RegisterUS: lat, CloseUS: lat, PerSecond: 10},
		{What: bench.RegisterMemory, Size: 1 << 20, Datapath: "udp", RegisterUS: lat, CloseUS: lat, PerSecond: 5},
	}
	side := func(ops uint64, cpu time.Duration) bench.RealSide {
		return bench.RealSide{Ops: ops, Seconds: 1, P50US: 20, P99US: 30, ClientCPU: cpu, Opened: 500, ClientBytes: 4321}
	}
	programs.AddReal(bench.RealResult{Case: "redis <1>", MTU: 9000, Datapath: "tcx"}, bench.RealRound{TCP: side(1000, time.Second), ND: side(500, time.Second)})
	programs.AddReal(bench.RealResult{Case: "idle", MTU: 9000, Datapath: "tcx", Idle: 77}, bench.RealRound{TCP: side(0, 0), ND: side(0, 0)})
	for _, c := range []struct {
		report *bench.Report
		want   []string
	}{
		{programs, []string{
			`<section id="real">`, `<a href="#real">`, `<th scope="row">redis &lt;1&gt;</th>`, `77 idle connections`, `<td class="n">4321</td>`,
			`aria-label="0.50 times TCP"><rect x="0.00" width="25.00" height="1" class="p0"/>`, `aria-label="2.00 times TCP"><rect x="0.00" width="100.00"`,
			`<p class="name">Real programs</p>`, `geometric mean of 1 cases over nd tcx, MTU 9000`,
		}},
		{connections, []string{`<section id="connections">`, `<a href="#connections">`, "<small>a second</small>", `<td class="n">984</td>`, `<p class="name">Idle connection</p>`}},
		{registrations, []string{`<section id="registrations">`, `<a href="#registrations">`, `<td class="n">21.50</td>`, "1 MiB over nd udp"}},
	} {
		html := render(t, Source{"one.json", c.report})
		for _, want := range c.want {
			if !strings.Contains(html, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		for _, bad := range []string{`id="limits"`, `href="#limits"`, `id="parts"`, `id="figures"`, `id="programs"`} {
			if strings.Contains(html, bad) {
				t.Errorf("the page has %q, of tests that were not run", bad)
			}
		}
	}
}

// TestRowsSayHowTheyWereMeasured: results of a test alone, beside streams and on several connections are distinct, and every table of
// tests names the conditions of a row.
func TestRowsSayHowTheyWereMeasured(t *testing.T) {
	r := bench.NewReport()
	x := bench.Result{
		Test: bench.WriteLat, Size: 64, MTU: 1500, Mode: bench.ModeEvent, Datapath: "tcx", Ops: 1, Bytes: 64, Seconds: 1, Gbps: 1, Mops: 1, Verified: true,
		LatIs: bench.HalfRoundTrip, LatUS: &bench.Latency{Min: 1, P50: 1, P90: 1, P99: 1, P999: 1, Max: 1},
	}
	beside := x
	beside.Streams, beside.Unpinned = 2, true
	several := x
	several.Test, several.LatUS, several.Mode, several.Connections = bench.WriteBW, nil, bench.ModePoll, 3
	r.Results = []bench.Result{x, beside, several}
	var html bytes.Buffer
	if err := Render(&html, []Source{{"a", r}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nd tcx, event", "nd tcx, event unpinned beside 2 streams", "nd tcx, poll 3 connections"} {
		if n := strings.Count(html.String(), "<td>"+want+"</td>"); n != 3 { // the tables of limits, parts and figures
			t.Errorf("%q stands in %d rows, want 3", want, n)
		}
	}
}
