package provider

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/qpstate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenTransitions prints the states of connectors, each with its successors. A change here is a change of what applications see.
func TestGoldenTransitions(t *testing.T) {
	var out bytes.Buffer
	out.WriteString("connector\n\n")
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
	for s := QPIdle; s <= QPClosed; s++ {
		for ev := qpstate.Attach; ev <= qpstate.Release; ev++ {
			e.stats = Stats{}
			qp := &QP{}
			qp.home.Store(e)
			qp.state.Store(uint32(s))
			qp.transition(ev)
			to, legal := s.After(ev)
			if n := e.stats.IllegalTransitions; (n == 0) != legal || qp.State() != to {
				t.Errorf("%v, event %d: %v, counted %d", s, ev, qp.State(), n)
			}
		}
	}
}
