package ndmetrics

import (
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ndxdp/ndxdp/nd"
)

// newAdapter opens an adapter that needs no privilege, and says where its packets go.
func newAdapter(t *testing.T) (*nd.Adapter, *net.UDPAddr) {
	t.Helper()
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := free.LocalAddr().(*net.UDPAddr)
	free.Close()
	a, err := nd.OpenAdapter(nd.AdapterConfig{
		Address: netip.MustParseAddr("127.0.0.1"), UDPPort: uint16(at.Port), Datapath: nd.DatapathUDP,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, at
}

// TestMetricsFollowTheConventions lets Prometheus' own linter judge names, units and help, and wants every series from the first
// scrape on.
func TestMetricsFollowTheConventions(t *testing.T) {
	a, _ := newAdapter(t)
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

// TestDropsShowInMetrics sends packets that no peer would send, and looks for each reason where a scraper does.
func TestDropsShowInMetrics(t *testing.T) {
	a, at := newAdapter(t)
	handler := Handler(a)
	scrape := func() string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	stranger, err := net.DialUDP("udp4", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for reason, packet := range map[string][]byte{
		"not_nd":       make([]byte, 8),
		"version":      append([]byte{0xff}, make([]byte, 99)...),
		"reserved":     append([]byte{0x11}, make([]byte, 99)...),
		"crc":          append([]byte{0x10}, make([]byte, 99)...),
		"unknown_conn": strayData(),
	} {
		line := `ndxdp_drops_total{adapter="127.0.0.1",reason="` + reason + `"} `
		if !strings.Contains(scrape(), line+"0\n") {
			t.Errorf("%s is not zero at first", reason)
		}
		if _, err := stranger.Write(packet); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(5 * time.Second)
		for !strings.Contains(scrape(), line+"1\n") {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not show:\n%s", reason, scrape())
			}
		}
	}
}

// strayData is a packet of a connection that does not exist: a good header with an id of nobody's.
func strayData() []byte {
	p := make([]byte, 64)
	p[0], p[1], p[15] = 0x10, 1, 1
	return p
}
