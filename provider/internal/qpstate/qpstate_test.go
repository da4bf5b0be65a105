package qpstate

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var update = flag.Bool("update", false, "rewrite the golden file")

var eventNames = [numEvents]string{"attach", "detach", "establish", "fail", "flush", "finish", "release"}

// TestGoldenTransitions prints the table: every state with every event. A change of the output is a change for applications.
func TestGoldenTransitions(t *testing.T) {
	var out bytes.Buffer
	for s := range State(numStates) {
		for ev := range Event(numEvents) {
			name := "-"
			to, legal := s.After(ev)
			if legal {
				name = to.String()
			} else if to != Error {
				t.Errorf("%v, %s: leads to %v, want %v", s, eventNames[ev], to, Error)
			}
			fmt.Fprintf(&out, "%-10s %-10s %s\n", s, eventNames[ev], name)
		}
	}
	testhelp.Golden(t, "the states of queue pairs", "testdata/transitions.golden", out.Bytes(), *update)
	if s := State(numStates).String(); s != "unknown" {
		t.Errorf("no state is called %q", s)
	}
}
