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

// over says what the tests of a family run over.
var over = map[string]string{
	"ND2": ", over AF_XDP on a veth pair (root), a few\nthat need an adapter of their own over plain sockets on loopback",
	"NDK": ", over plain sockets on loopback.\nRows of CQ, Connector, Listener and Callback run over AF_XDP on a veth pair as well (root): `TestConformanceOverXDP`",
}

// Matrix renders docs/CONFORMANCE.md.
func (t *Table) Matrix() []byte {
	var out bytes.Buffer
	out.WriteString(`# Conformance

Which test provokes each status of each method, and which statuses have none and why. ` + "`make conformance`" + ` runs the tests
and prints the first table; ` + "`go test ./internal/conformance -update`" + ` writes this page from nd/testdata/status-table.csv and
conformance.csv. A row without a test that must have one, or a test without a row, fails the tests.

- *Proven*: a test of its own brings about the condition through the API, a peer, the kernel or the network, and gets the status.
- *Same call*: it has a test, which is that of another row.
- *Simulated cause*: it has a test, which brings about the condition beneath the API: a count that is set, a call that the engine gets.
- *Not in Go*: what the row is about does not exist in Go's form of the call.
- *Never*: the table allows it, this provider does not produce it.

`)
	tallies := t.tallies()
	out.WriteString("| family | object | rows | proven |")
	for _, m := range marks {
		fmt.Fprintf(&out, " %s |", m)
	}
	out.WriteString("\n| --- | --- | ---: | ---: |" + strings.Repeat(" ---: |", len(marks)) + "\n")
	for _, c := range tallies {
		fmt.Fprintf(&out, "| %s | %s | %d | %d |", c.family, c.object, c.rows, c.proven)
		for _, m := range marks {
			fmt.Fprintf(&out, " %d |", c.marks[m])
		}
		out.WriteString("\n")
	}
	family, object := "", ""
	for _, r := range t.Rows {
		if r.Family != family {
			family, object = r.Family, ""
			fmt.Fprintf(&out, "\n## %s\n\nThe test of a row is `go test ./%s -run 'TestConformance/<object>/<method>/<status>'`%s.\n", family, tests[family], over[family])
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
