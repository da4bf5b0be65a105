package ndmetrics

import (
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// Without an adapter both functions panic, as they say, and not later at a scrape. The channels of Describe and Collect are
// Prometheus's.
func TestNilArguments(t *testing.T) {
	calls := map[string]func(){
		"Handler 1":      func() { Handler(nil) },
		"NewCollector 1": func() { NewCollector(nil) },
	}
	if err := conformance.CheckNil(calls, Handler, NewCollector); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "ndmetrics: the adapter is nil") {
					t.Errorf("%s: no panic that says why", name)
				}
			}()
			call()
		}()
	}
}
