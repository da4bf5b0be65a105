package ndmetrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndmetrics"
)

// A program serves the metrics of its adapter. Prometheus scrapes them.
func ExampleHandler() {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), Datapath: nd.DatapathUDP})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Close()
	mux := http.NewServeMux()
	mux.Handle("/metrics", ndmetrics.Handler(adapter)) // and http.ListenAndServe(":9100", mux)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), `ndxdp_connections{adapter="127.0.0.1"} 0`))
	// Output: 200 true
}
