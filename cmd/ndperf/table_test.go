package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestTableGolden(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "bench", "testdata", "report.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.ReadReport(f)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	renderReport(&got, r)
	golden := filepath.Join("testdata", "table.golden.txt")
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
		t.Errorf("the table changed (go test ./cmd/ndperf -update rewrites it):\n%s", got.Bytes())
	}
}

func TestPlainProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 2)
	p.start("nd write_bw 1 MiB mtu 1500")
	p.done(resultLine(bench.Result{Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 12.34, Mops: 0.0015}))
	p.start("raw write_lat 64 B mtu 1500")
	p.done(baselineLine(bench.Baseline{
		Kind: bench.KindRaw, Test: bench.WriteLat, Size: 64, MTU: 1500, LatIs: bench.HalfRoundTrip,
		LatUS: &bench.Latency{P50: 2.1, P99: 3.25},
	}))
	p.finish()
	want := "nd write_bw 1 MiB mtu 1500: 12.3 Gb/s, 0.0015 Mop/s\n" +
		"raw write_lat 64 B mtu 1500: p50 2.10 µs, p99 3.25 µs (½ round trip)\n"
	if out.String() != want {
		t.Errorf("progress printed:\n%swant:\n%s", out.String(), want)
	}
}

func TestTailFindsTheReason(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"first\nlast\n", "last"},
		{"goroutine 1 gave up\npanic: broken invariant I3\n\ngoroutine 1 [running]:\nmain.main()\n", "panic: broken invariant I3"},
	} {
		var s tail
		_, _ = s.Write([]byte(c.in)) // never fails
		if got := s.lastLine(); got != c.want {
			t.Errorf("%q: reason is %q, want %q", c.in, got, c.want)
		}
	}
}

func TestResentLine(t *testing.T) {
	x := bench.Result{Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Resent: bench.Resent{Lost: 3, Probe: 2, Needless: 2}}
	if got := resentLine(x); got != "write_bw 1 MiB, MTU 1500, resent 5: 3 lost, 2 probes; the peer had 2 of them" {
		t.Errorf("%q", got)
	}
	if got := resentLine(bench.Result{}); got != "" {
		t.Errorf("nothing was sent again: %q", got)
	}
}

// TestUnverifiedRunsSaySo: with --verify=false no output claims that bytes were verified, not even for tests of latency. A sweep does not
// refer users to a page that is refused.
func TestUnverifiedRunsSaySo(t *testing.T) {
	r := bench.NewReport()
	r.Results = []bench.Result{{Test: bench.WriteLat, Size: 64, Datapath: "udp", LatIs: bench.HalfRoundTrip, LatUS: &bench.Latency{P50: 1}}}
	for name, render := range map[string]func(io.Writer){
		"report": func(w io.Writer) { renderReport(w, r) },
		"sweep":  func(w io.Writer) { renderSweep(w, r, "sweep.json") },
	} {
		var out bytes.Buffer
		render(&out)
		if said := out.String(); !strings.Contains(said, "the bytes were not checked") || strings.Contains(said, "every operation verified") || strings.Contains(said, "ndperf report sweep.json") {
			t.Errorf("%s:\n%s", name, said)
		}
	}
}
