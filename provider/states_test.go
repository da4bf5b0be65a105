package provider

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenTransitions prints the states of connectors with their successors. A change of the output is a change for applications.
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
	testhelp.Golden(t, "the states of connectors", "testdata/transitions.golden", out.Bytes(), *update)
}

func TestIllegalTransitionsAreCountedAndHarmless(t *testing.T) {
	e := &Engine{}
	for s := QPIdle; s <= QPClosed; s++ {
		for ev := qpAttach; ev <= qpRelease; ev++ {
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
