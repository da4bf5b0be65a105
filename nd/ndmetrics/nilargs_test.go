package ndmetrics

import (
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// With a nil adapter both functions panic as documented, and not later during a scrape. Prometheus provides the channels of
// Describe and Collect.
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
