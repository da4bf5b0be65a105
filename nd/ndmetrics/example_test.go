package ndmetrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndmetrics"
)

// here is an address of this machine that no other program uses.
var here = netlabtest.Loopback()[0]

// A program serves the metrics of its adapter. Prometheus scrapes them.
func ExampleHandler() {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: here, Datapath: nd.DatapathUDP})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Close()
	mux := http.NewServeMux()
	mux.Handle("/metrics", ndmetrics.Handler(adapter)) // and http.ListenAndServe(":9100", mux)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), fmt.Sprintf("ndxdp_connections{adapter=%q} 0", here)))
	// Output: 200 true
}
