package conformance

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/CONFORMANCE.md")

func load(t *testing.T) *Table {
	t.Helper()
	table, err := Load("../../nd/testdata")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTableIsSound(t *testing.T) {
	if err := load(t).Verify(); err != nil {
		t.Error(err)
	}
}

func TestPageIsCurrent(t *testing.T) {
	const page = "../../docs/CONFORMANCE.md"
	want := load(t).Matrix()
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the table: go test ./internal/conformance -update", page)
	}
}

// small is a table of three rows: with a test of its own, without a test, and with a shared test.
func small() *Table {
	return &Table{
		Rows: []Row{
			{Family: "F", Object: "O", Method: "M", Status: "A", Code: "0x80000005"},
			{Family: "F", Object: "O", Method: "M", Status: "B"},
			{Family: "F", Object: "O", Method: "M", Status: "D"},
		},
		Exceptions: []Exception{{"F", "O", "*", "B", Never, "because"}, {"F", "O", "*", "D", SameCall, "as A"}},
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name  string
		tests map[string]int
		want  string
	}{
		{"all there", map[string]int{"O/M/A": 1, "O/M/D": 1}, ""},
		{"a row without a test", map[string]int{"O/M/D": 1}, "no test for the row O/M/A"},
		{"a row that counts apart without a test", map[string]int{"O/M/A": 1}, "no test for the row O/M/D"},
		{"a test without a row", map[string]int{"O/M/A": 1, "O/M/D": 1, "O/M/C": 1}, "for the test O/M/C"},
		{"a test of a row that has none", map[string]int{"O/M/A": 1, "O/M/D": 1, "O/M/B": 1}, "for the test O/M/B"},
	} {
		err := Check(small(), "F", c.tests)
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestVerifyFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Table)
	}{
		{"twice", func(t *Table) { t.Rows = append(t.Rows, t.Rows[0]) }},
		{"covers nothing", func(t *Table) { t.Exceptions[0].Status = "C" }},
		{"shadowed", func(t *Table) { t.Exceptions = append(t.Exceptions, Exception{"F", "O", "M", "B", Never, "again"}) }},
		{"no reason", func(t *Table) { t.Exceptions[0].Reason = "" }},
		{"unknown mark", func(t *Table) { t.Exceptions[0].Mark = "perhaps" }},
	} {
		table := small()
		if err := table.Verify(); err != nil {
			t.Fatal(err)
		}
		if c.spoil(table); table.Verify() == nil {
			t.Errorf("%s: not found", c.name)
		}
	}
}

// Rows whose test is shared are counted separately from rows with a test of their own.
func TestMatrixCountsApart(t *testing.T) {
	page := string(small().Matrix())
	for _, line := range []string{
		"| family | object | rows | proven | same call | simulated cause | not in Go | never |\n",
		"| F | O | 3 | 1 | 1 | 0 | 0 | 1 |\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no line %q in\n%s", line, page)
		}
	}
}

func TestValue(t *testing.T) {
	rows := small().Rows
	if v, ok := rows[0].Value(); !ok || v != 0x80000005 {
		t.Errorf("%#x, %v", v, ok)
	}
	if _, ok := rows[1].Value(); ok {
		t.Error("a row without a number has one")
	}
}
