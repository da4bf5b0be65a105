package conformance

import (
	"path/filepath"
	"strings"
	"testing"
)

// World executes rows of the state tables. It has two adapters: "a" is the active one and "b" the passive one. Participants are a,
// b, and further objects. "x" and "y" are further connectors at a, x with a's queue pair and y with its own. "z" is a connector at
// b with b's queue pair. "l" is the listener at b.
type World interface {
	// Call makes a call that returns at once, and returns its status.
	Call(who, call string) (status string)
	// Start starts a blocking call, and checks that it has begun.
	Start(who, call string)
	// Finish waits until a started call returns.
	Finish(who, call string) (status string)
	// Pending reports whether a started call has not returned.
	Pending(who, call string) bool
	// Await waits until a participant is in a state: of the connector, or with the prefix "qp:" of the queue pair.
	Await(who, state string)
	// Do causes an event that is not a call: cut, heal, aborted and others.
	Do(who, event string)
}

// StateRow is one line of state-table.csv: steps that test a row of state-rules.csv (ND specification 14).
type StateRow struct {
	ID    string // C01 to C74 and so on
	Given string // name of a prefix, from the rows with ID "given"
	Steps []string
}

// GivenTest, as the prefix, means that the row has no steps: it names packages and tests instead.
const GivenTest = "test"

// Played reports whether the row has steps.
func (r StateRow) Played() bool { return r.Given != GivenTest }

// LoadStates reads the state tables, and puts prefixes in front of the steps. Steps are words:
//
//	who.call!STATUS   the call returns at once
//	who.call          the call is started, and waits or will return
//	who.call=STATUS   a call that was started returns
//	who.call?         a call that was started still waits
//	who@state         the connector is, or comes to be, in a state; who@qp:state the queue pair
//	who*event, *event something else happens
//
// A step with the prefix "WORLD:" applies only to the world of this name.
func LoadStates(dir string) (rows []StateRow, err error) {
	lines, err := read(filepath.Join(dir, "state-table.csv"), 3)
	if err != nil {
		return nil, err
	}
	given := map[string][]string{}
	for _, l := range lines {
		steps := append(given[l[1]][:len(given[l[1]]):len(given[l[1]])], strings.Fields(l[2])...)
		if l[0] == "given" {
			name, rest, _ := strings.Cut(l[2], ":")
			before := given[l[1]]
			given[name] = append(before[:len(before):len(before)], strings.Fields(rest)...)
			continue
		}
		rows = append(rows, StateRow{ID: l[0], Given: l[1], Steps: steps})
	}
	return rows, nil
}

// Uses reports whether a step of the row has one of these events.
func (r StateRow) Uses(events ...string) bool {
	for _, s := range r.Steps {
		for _, e := range events {
			if strings.HasSuffix(s, "*"+e) {
				return true
			}
		}
	}
	return false
}

// Play executes a row in a world with this name.
func (r StateRow) Play(t *testing.T, name string, w World) {
	t.Helper()
	for _, step := range r.Steps {
		if world, rest, only := strings.Cut(step, ":"); only && !strings.ContainsAny(world, ".@*!=") {
			if world != name {
				continue
			}
			step = rest
		}
		play(t, w, step)
		if t.Failed() {
			t.Fatalf("at %s of %v", step, r.Steps)
		}
	}
}

func play(t *testing.T, w World, step string) {
	t.Helper()
	if who, event, ok := strings.Cut(step, "*"); ok {
		w.Do(who, event)
		return
	}
	if who, state, ok := strings.Cut(step, "@"); ok {
		w.Await(who, state)
		return
	}
	who, call, _ := strings.Cut(step, ".")
	if call, want, ok := strings.Cut(call, "!"); ok {
		if status := w.Call(who, call); status != want {
			t.Errorf("%s.%s: %s, want %s at once", who, call, status, want)
		}
		return
	}
	if call, want, ok := strings.Cut(call, "="); ok {
		if status := w.Finish(who, call); status != want {
			t.Errorf("%s.%s ended with %s, want %s", who, call, status, want)
		}
		return
	}
	if call, ok := strings.CutSuffix(call, "?"); ok {
		if !w.Pending(who, call) {
			t.Errorf("%s.%s returned, want it waiting", who, call)
		}
		return
	}
	w.Start(who, call)
}
