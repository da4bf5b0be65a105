package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tables has the state tables of docs/ND.md section 14, with their number of rows.
var tables = map[string]int{"C": 72, "Q": 15, "L": 13, "N": 15, "W": 7, "M": 4, "K": 8}

// Every row of the specification's state tables is executed, or has the name of its test.
func TestStateTablesAreComplete(t *testing.T) {
	rows, err := LoadStates("../../nd/testdata")
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
	sum := 0
	for table, n := range tables {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprintf("%s%02d", table, i); !have[id] {
				t.Errorf("row %s has no test", id)
			}
		}
		sum += n
	}
	if sum != 134 || len(have) != sum {
		t.Errorf("%d rows of %d", len(have), sum)
	}
}

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
