package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every row of the specification's state tables is executed, or has the name of its test.
func TestStateTablesAreComplete(t *testing.T) {
	const dir = "../../nd/testdata"
	rules, err := read(filepath.Join(dir, "state-rules.csv"), 7)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := LoadStates(dir)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, r := range rows {
		have[r.ID] = true
		if r.Given == GivenTest {
			for i := 0; i+1 < len(r.Steps); i += 2 {
				wantTest(t, r.Steps[i], r.Steps[i+1])
			}
		}
	}
	specified := map[string]bool{}
	for _, r := range rules {
		if id := r[0]; specified[id] || !have[id] {
			t.Errorf("row %s stands twice, or has no test", id)
		}
		specified[r[0]] = true
	}
	if len(rules) != stateRules || len(have) != stateRules {
		t.Errorf("%d rows are specified and %d tested, of %d", len(rules), len(have), stateRules)
	}
}

// stateRules is the number of rows of the state tables.
const stateRules = 136

// wantTest checks that a package has a test.
func wantTest(t *testing.T, pkg, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(t *testing.T)") {
			return
		}
	}
	t.Errorf("package %s has no %s", pkg, name)
}
