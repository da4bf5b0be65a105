package ndmetrics

import (
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// newAdapter opens an adapter that needs no privilege.
func newAdapter(t *testing.T) *nd.Adapter {
	t.Helper()
	a, err := nd.OpenAdapter(nd.AdapterConfig{
		Address: netip.MustParseAddr("127.0.0.1"), UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP,
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

// TestMetricsFollowTheConventions lets Prometheus' own linter judge names, units and help, and wants every series from the first
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
