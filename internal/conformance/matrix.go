package conformance

import (
	"bytes"
	"fmt"
	"strings"
)

// tally counts the rows of one object.
type tally struct {
	family, object string
	rows, proven   int
	marks          map[Mark]int
}

// tests says where the tests of a family are.
var tests = map[string]string{"ND2": "nd", "NDK": "nd/ndk"}

// Matrix renders docs/CONFORMANCE.md.
func (t *Table) Matrix() []byte {
	var out bytes.Buffer
	out.WriteString(`# Conformance

Which test provokes each status of each method, and which statuses have none and why. ` + "`make conformance`" + ` runs the tests
and prints the first table; ` + "`go test ./internal/conformance -update`" + ` writes this page from nd/testdata/status-table.csv and
conformance.csv. A row without a test, or a test without a row, fails the tests. *Not in Go*: what the row is about does not
exist in Go's form of the call. *Never*: the table allows it, this provider does not produce it.

`)
	tallies := t.tallies()
	out.WriteString("| family | object | rows | proven | not in Go | never | not built |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range tallies {
		fmt.Fprintf(&out, "| %s | %s | %d | %d | %d | %d | %d |\n", c.family, c.object, c.rows, c.proven,
			c.marks[NoSuchThing], c.marks[Never], c.marks[NotBuilt])
	}
	family, object := "", ""
	for _, r := range t.Rows {
		if r.Family != family {
			family, object = r.Family, ""
			fmt.Fprintf(&out, "\n## %s\n\nThe test of a row is `go test ./%s -run 'TestConformance/<object>/<method>/<status>'`.\n", family, tests[family])
			if e, ok := t.whole(family); ok {
				fmt.Fprintf(&out, "\n%s: %s.\n", e.Mark, e.Reason)
			}
		}
		if _, ok := t.whole(family); ok {
			continue
		}
		if r.Object != object {
			object = r.Object
			fmt.Fprintf(&out, "\n### %s\n\n| method | status | condition | proof |\n| --- | --- | --- | --- |\n", object)
		}
		proof := "test"
		if e, ok := t.Exception(r); ok {
			proof = string(e.Mark) + ": " + e.Reason
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.Method, r.Status, strings.ReplaceAll(r.Condition, "|", "\\|"), proof)
	}
	return out.Bytes()
}

// whole returns the exception that covers all of a family.
func (t *Table) whole(family string) (Exception, bool) {
	for _, e := range t.Exceptions {
		if e.Family == family && e.Object == "*" && e.Method == "*" && e.Status == "*" {
			return e, true
		}
	}
	return Exception{}, false
}

// tallies counts per object, in the order of the table, with a sum for each family.
func (t *Table) tallies() (all []tally) {
	sums := map[string]*tally{}
	var order []string
	count := func(family, object string, r Row) {
		key := family + "/" + object
		c := sums[key]
		if c == nil {
			c = &tally{family: family, object: object, marks: map[Mark]int{}}
			sums[key] = c
			order = append(order, key)
		}
		c.rows++
		if e, ok := t.Exception(r); ok {
			c.marks[e.Mark]++
		} else {
			c.proven++
		}
	}
	for _, r := range t.Rows {
		count(r.Family, "**all**", r)
		count(r.Family, r.Object, r)
	}
	for _, key := range order {
		all = append(all, *sums[key])
	}
	return all
}
