package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// TestEveryOutcomeHasAStatus checks that no outcome of the engine is reported as an internal error.
func TestEveryOutcomeHasAStatus(t *testing.T) {
	n := 0
	for o := provider.OutcomeSuccess; o.String() != "unknown outcome"; o++ {
		if _, ok := statusOf[o]; !ok {
			t.Errorf("outcome %s has no status", o)
		}
		n++
	}
	if n < 20 {
		t.Errorf("only %d outcomes", n)
	}
}
