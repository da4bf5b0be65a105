package conformance

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Row is a status that a method may return, from status-table.csv (docs/ND.md explains the columns).
type Row struct{ Family, Object, Method, Status, When, Condition, Code, Basis string }

// Key identifies the row within its family. It is the name of the test for the row, and the key of maps of tests.
func (r Row) Key() string { return r.Object + "/" + r.Method + "/" + r.Status }

// Value returns the number of the status. ok is false for rows without one, like counts.
func (r Row) Value() (code uint32, ok bool) {
	n, err := strconv.ParseUint(r.Code, 0, 32)
	return uint32(n), err == nil
}

// Mark is the reason why a row has no test of its own.
type Mark string

// Marks of rows.
const (
	SameCall    Mark = "same call"       // tested by the test of another row, or of another form of the same call
	Simulated   Mark = "simulated cause" // its test causes the status by means below the API
	NoSuchThing Mark = "not in Go"       // does not apply to Go's form of the call; no test
	Never       Mark = "never"           // allowed by the table, but never returned by this provider; no test
)

// marks lists all marks in the order of their columns.
var marks = []Mark{SameCall, Simulated, NoSuchThing, Never}

// tested reports whether rows with the mark have a test.
func (m Mark) tested() bool { return m == SameCall || m == Simulated }

// Exception assigns a mark to rows, from conformance.csv. "*" stands for any object, method or status.
type Exception struct {
	Family, Object, Method, Status string
	Mark                           Mark
	Reason                         string
}

func (e Exception) covers(r Row) bool {
	is := func(pattern, s string) bool { return pattern == "*" || pattern == s }
	return e.Family == r.Family && is(e.Object, r.Object) && is(e.Method, r.Method) && is(e.Status, r.Status)
}

// Table holds both files.
type Table struct {
	Rows       []Row
	Exceptions []Exception
}

// Load reads status-table.csv and conformance.csv in a directory.
func Load(dir string) (*Table, error) {
	t := &Table{}
	rows, err := read(filepath.Join(dir, "status-table.csv"), 8)
	if err != nil {
		return nil, err
	}
	for _, f := range rows {
		t.Rows = append(t.Rows, Row{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]})
	}
	rows, err = read(filepath.Join(dir, "conformance.csv"), 6)
	if err != nil {
		return nil, err
	}
	for _, f := range rows {
		t.Exceptions = append(t.Exceptions, Exception{f[0], f[1], f[2], f[3], Mark(f[4]), f[5]})
	}
	return t, nil
}

// read returns the lines of a file after the header line.
func read(name string, columns int) ([][]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = columns
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: empty", name)
	}
	return lines[1:], nil
}

// Exception returns the first exception that covers a row.
func (t *Table) Exception(r Row) (Exception, bool) {
	i := slices.IndexFunc(t.Exceptions, func(e Exception) bool { return e.covers(r) })
	if i < 0 {
		return Exception{}, false
	}
	return t.Exceptions[i], true
}

// Tested returns the rows of a family that must have a test.
func (t *Table) Tested(family string) (rows []Row) {
	for _, r := range t.Rows {
		if e, ok := t.Exception(r); r.Family == family && (!ok || e.Mark.tested()) {
			rows = append(rows, r)
		}
	}
	return rows
}

// Check compares the tests of a family, by Key, with the table. Each row that needs a test must have one, and each test must have a
// row.
func Check[T any](t *Table, family string, tests map[string]T) error {
	left := maps.Clone(tests)
	var errs []error
	for _, r := range t.Tested(family) {
		if _, ok := left[r.Key()]; !ok {
			errs = append(errs, fmt.Errorf("no test for the row %s: %s", r.Key(), r.Condition))
		}
		delete(left, r.Key())
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		errs = append(errs, fmt.Errorf("no row, or an excepted one, for the test %s", key))
	}
	return errors.Join(errs...)
}

// Verify checks the table itself: rows that occur twice, and exceptions that match nothing, have no reason or an unknown mark.
func (t *Table) Verify() error {
	var errs []error
	seen := map[string]bool{}
	used := map[Exception]bool{}
	for _, r := range t.Rows {
		key := r.Family + "/" + r.Key()
		if seen[key] {
			errs = append(errs, fmt.Errorf("the row %s occurs twice", key))
		}
		seen[key] = true
		if e, ok := t.Exception(r); ok {
			used[e] = true
		}
	}
	for _, e := range t.Exceptions {
		switch {
		case !used[e]:
			errs = append(errs, fmt.Errorf("the exception %+v covers no row that another one does not", e))
		case e.Reason == "" || !slices.Contains(marks, e.Mark):
			errs = append(errs, fmt.Errorf("the exception %+v has no reason or an unknown mark", e))
		}
	}
	return errors.Join(errs...)
}
