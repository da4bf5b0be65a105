package ndmetrics

import (
	"encoding/json"
	"net/netip"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// newAdapter opens an adapter that needs no privilege.
func newAdapter(t *testing.T) *nd.Adapter {
	t.Helper()
	a, err := nd.OpenAdapter(nd.AdapterConfig{
		Address: netlabtest.Loopback()[0], UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestMetricsFollowTheConventions checks names, units and help texts with Prometheus' linter. All series exist from the first
// scrape on.
func TestMetricsFollowTheConventions(t *testing.T) {
	a := newAdapter(t)
	c := NewCollector(a)
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v", err, problems)
	}
	if n, want := testutil.CollectAndCount(c, "ndxdp_drops_total"), len(nd.DropReasons()); n != want {
		t.Errorf("%d drop reasons of %d", n, want)
	}
	if n, want := testutil.CollectAndCount(c, "ndxdp_connection_limited_seconds_total"), len(nd.LimitNames()); n != want {
		t.Errorf("%d limits of %d", n, want)
	}
}

// TestOperationsAreCounted: the operations of programs are counted with their bytes on both sides, and a sampled request appears in
// the latencies.
func TestOperationsAreCounted(t *testing.T) {
	a := newAdapter(t)
	at := netip.AddrPortFrom(a.QueryAddressList()[0], 7400) // an adapter over plain sockets reaches itself
	l, err := nd.Listen(at, nd.EndpointConfig{Adapter: a, Rights: nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *nd.Endpoint, 1)
	go func() {
		e, _ := l.Accept(t.Context()) // the result of Dial shows whether it was accepted
		accepted <- e
	}()
	e, err := nd.Dial(t.Context(), at, nd.EndpointConfig{Adapter: a})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	peer := <-accepted
	defer peer.Close()
	end := func(e *nd.Endpoint, err error) {
		t.Helper()
		if err == nil {
			_, err = e.Result(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		end(e, e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, 1000)}, e.Peer.Address, e.Peer.Token, 0))
	}
	end(e, e.QueuePair.Read(2, []nd.SGE{e.Memory.SGE(0, 70)}, e.Peer.Address, e.Peer.Token, 0))
	if err := peer.QueuePair.Receive(3, []nd.SGE{peer.Memory.SGE(0, 100)}); err != nil {
		t.Fatal(err)
	}
	end(e, e.QueuePair.Send(4, []nd.SGE{e.Memory.SGE(0, 5)}, 0))
	end(peer, nil)
	s := a.Stats()
	for name, want := range map[string][2]uint64{"write": {3, 3000}, "read": {1, 70}, "send": {1, 5}, "receive": {1, 5}, "bind": {}} {
		if s.Operations.Done[name] != want[0] || s.Operations.Bytes[name] != want[1] {
			t.Errorf("%s: %d with %d bytes, want %v", name, s.Operations.Done[name], s.Operations.Bytes[name], want)
		}
	}
	for deadline := time.Now().Add(time.Minute); a.Stats().Operations.Latency.Sum == 0; { // requests must be a millisecond apart for a sample
		end(e, e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, 8)}, e.Peer.Address, e.Peer.Token, 0))
		if time.Now().After(deadline) {
			t.Fatal("nothing was sampled")
		}
	}
	sampled := uint64(0)
	for _, n := range a.Stats().Operations.Latency.Counts {
		sampled += n
	}
	if sampled == 0 {
		t.Error("a sum without samples")
	}
}

// metricNames returns the names of a collector's metrics, as in queries.
func metricNames(t *testing.T, c prometheus.Collector) map[string]bool {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		if f.GetType().String() == "HISTOGRAM" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[f.GetName()+suffix] = true
			}
			continue
		}
		names[f.GetName()] = true
	}
	return names
}

// TestDashboardKnowsItsMetrics: every metric that the dashboard queries exists. Every panel has a query, and its own position and
// number.
func TestDashboardKnowsItsMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/grafana/ndxdp.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string `json:"title"`
		UID    string `json:"uid"`
		Panels []struct {
			ID      int    `json:"id"`
			Type    string `json:"type"`
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
			GridPos struct{ X, Y, W, H int } `json:"gridPos"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name  string `json:"name"`
				Query any    `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	names := metricNames(t, NewCollector(newAdapter(t)))
	ids, places := map[int]bool{}, map[[2]int]bool{}
	asked := 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || len(p.Targets) == 0 || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%+v", p)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if places[at] {
					t.Fatalf("%q covers another panel", p.Title)
				}
				places[at] = true
			}
		}
		for _, q := range p.Targets {
			found := regexp.MustCompile(`ndxdp_\w+`).FindAllString(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%q asks for nothing of ours: %s", p.Title, q.Expr)
			}
			for _, name := range found {
				asked++
				if !names[name] {
					t.Errorf("%q queries %s, which does not exist", p.Title, name)
				}
			}
		}
	}
	if board.Title == "" || board.UID == "" || asked < 15 {
		t.Errorf("%q, %q, %d metrics", board.Title, board.UID, asked)
	}
}
