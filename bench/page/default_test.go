package page

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// defaultRun returns the report of "ndperf veth --duration 50ms --json default.json" on a busy machine: its figures mean nothing. A change of
// the default run, or of the fields of a report, needs a new file.
func defaultRun(t *testing.T) *bench.Report {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "default.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.ReadReport(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPageOfADefaultRun: each of the three headlines is shown beside TCP, and each test has its plot at each MTU.
func TestPageOfADefaultRun(t *testing.T) {
	r := defaultRun(t)
	tiles := Tiles(r)
	for i, name := range []string{"Latency, median", "Bandwidth", "Rate"} {
		if i >= len(tiles) || tiles[i].Name != name || tiles[i].Value == "" {
			t.Fatalf("the tiles are %+v, want %s", tiles, name)
		}
		if name != "Rate" && !strings.Contains(tiles[i].Beside, "TCP, which") {
			t.Errorf("%s stands beside %q", name, tiles[i].Beside)
		}
	}
	mtus := map[int]bool{}
	for _, x := range r.Results {
		mtus[x.MTU] = true
	}
	if len(mtus) != 3 || len(r.Results) != 3*len(bench.Tests()) {
		t.Errorf("%d results at %d MTUs: the default run has each test at 3", len(r.Results), len(mtus))
	}
	html := render(t, Source{"default.json", r})
	for mtu := range mtus {
		for _, test := range []bench.Test{bench.WriteLat, bench.ReadLat, bench.SendLat} {
			if want := fmt.Sprintf(`id="plot-%s-distribution-%d"`, test, mtu); !strings.Contains(html, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
	}
}

// TestCurvesOfADefaultRun: the default run gives a curve over sizes for each test and MTU. A curve has results of the bulk path, and of one MTU only.
func TestCurvesOfADefaultRun(t *testing.T) {
	r := defaultRun(t)
	if !slices.ContainsFunc(r.Results, func(x bench.Result) bool { return x.Bulk && x.Test == bench.WriteBW }) {
		t.Fatal("the default run has no bulk path")
	}
	results := r.Results
	r.Results, r.Baselines = nil, nil
	for _, size := range sweepSizes {
		for _, x := range results {
			x.Size, x.Gbps = size, float64(x.MTU)
			r.Results = append(r.Results, x)
		}
	}
	figures, err := Figures([]Source{{"default.json", r}})
	if err != nil {
		t.Fatal(err)
	}
	for _, mtu := range []int{1500, 9000, 65000} {
		at := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == fmt.Sprintf("bandwidth-tcx-%d", mtu) })
		if at < 0 {
			t.Errorf("MTU %d has no plot of bandwidth", mtu)
			continue
		}
		for _, test := range []bench.Test{bench.WriteBW, bench.ReadBW, bench.SendBW} {
			if want := fmt.Sprintf(" %s from %.3g to %.3g;", test, float64(mtu), float64(mtu)); strings.Count(figures[at].Alt, want) != 1 {
				t.Errorf("MTU %d: %q, want %q", mtu, figures[at].Alt, want)
			}
		}
	}
}
