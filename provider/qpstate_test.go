package provider

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var qpEventNames = [numQPEvents]string{"attach", "detach", "establish", "fail", "flush", "finish", "release"}

// TestGoldenQPTransitions prints the table: every state with every event. A change of the output is a change for applications.
func TestGoldenQPTransitions(t *testing.T) {
	var out bytes.Buffer
	for s := range QPState(numQPStates) {
		for ev := range qpEvent(numQPEvents) {
			name := "-"
			to, legal := s.After(ev)
			if legal {
				name = to.String()
			} else if to != QPError {
				t.Errorf("%v, %s: leads to %v, want %v", s, qpEventNames[ev], to, QPError)
			}
			fmt.Fprintf(&out, "%-10s %-10s %s\n", s, qpEventNames[ev], name)
		}
	}
	testhelp.Golden(t, "the states of queue pairs", "testdata/qptransitions.golden", out.Bytes(), *update)
	if s := QPState(numQPStates).String(); s != "unknown" {
		t.Errorf("no state is called %q", s)
	}
}
