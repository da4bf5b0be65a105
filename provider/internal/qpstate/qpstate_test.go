package qpstate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenTransitions prints the table, every state against every event. A change here is a change of what applications see.
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
	const path = "testdata/transitions.golden"
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the table differs from %s; -update rewrites it:\n%s", path, &out)
	}
	if s := State(numStates).String(); s != "unknown" {
		t.Errorf("no state is called %q", s)
	}
}
