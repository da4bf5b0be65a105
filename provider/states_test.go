package provider

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenTransitions prints both state tables, every state against every event or successor. A change here is a change
// of what applications see.
func TestGoldenTransitions(t *testing.T) {
	var out bytes.Buffer
	out.WriteString("queue pair\n\n")
	for s := range QPState(numQPStates) {
		for ev := range qpEvent(numQPEvents) {
			next := "-"
			if to := qpTransitions[s][ev]; to != qpIllegal {
				next = to.String()
			}
			fmt.Fprintf(&out, "%-10s %-10s %s\n", s, qpEventNames[ev], next)
		}
	}
	out.WriteString("\nconnector\n\n")
	for s := range ConnectorState(numCtrStates) {
		fmt.Fprintf(&out, "%-22s", s)
		for to := range ConnectorState(numCtrStates) {
			if ctrNext[s]&(1<<to) != 0 {
				fmt.Fprintf(&out, " -> %s", to)
			}
		}
		out.WriteByte('\n')
	}
	const path = "testdata/transitions.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the tables differ from %s; -update rewrites it:\n%s", path, &out)
	}
}

func TestIllegalTransitionsAreCountedAndHarmless(t *testing.T) {
	e := &Engine{}
	for s := range QPState(numQPStates) {
		for ev := range qpEvent(numQPEvents) {
			e.stats = Stats{}
			qp := &QP{}
			qp.home.Store(e)
			qp.state.Store(uint32(s))
			qp.transition(ev)
			illegal := qpTransitions[s][ev] == qpIllegal
			if n := e.stats.IllegalTransitions; (n == 1) != illegal || illegal && qp.State() != QPError {
				t.Errorf("%v, %s: %v, counted %d", s, qpEventNames[ev], qp.State(), n)
			}
		}
	}
}
