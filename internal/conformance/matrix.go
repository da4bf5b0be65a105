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

// tests names the packages with the tests of a family.
var tests = map[string]string{"ND2": "nd", "NDK": "nd/ndk"}

// over describes the datapath of a family's tests.
var over = map[string]string{
	"ND2": ", over AF_XDP on a veth pair (root); a few rows need\nan adapter over plain sockets on loopback",
	"NDK": ", over plain sockets on loopback;\nrows of CQ, Connector, Listener and Callback also run over AF_XDP (root, `TestConformanceOverXDP`)",
}

// Matrix returns the text of docs/CONFORMANCE.md.
func (t *Table) Matrix() []byte {
	var out bytes.Buffer
	out.WriteString(`# Conformance

A conformance test provokes each status that a method of ND2 or NDKPI may return. This page counts them.

- The rows are in [nd/testdata/status-table.csv](../nd/testdata/status-table.csv): object, method, status and condition. [ND.md](ND.md) explains them.
- [nd/testdata/conformance.csv](../nd/testdata/conformance.csv) lists the rows that are not *proven*, with the reason.
- A row that lacks its test fails the tests, and so does a test that has no row. ` + "`make conformance`" + ` runs them as root and prints the table.
- ` + "`go test ./internal/conformance -update`" + ` generates this page.

| column | meaning |
| --- | --- |
| proven | A test of its own brings about the condition through the API, a peer, the kernel or the network, and gets the status. |
| same call | The test of another row makes the same call. |
| simulated cause | A test sets the condition beneath the API: a counter, or a call into the engine. |
| not in Go | Go's form of the call cannot have the condition. |
| never | The specification allows the status, and this provider never returns it. |

`)
	for _, family := range []string{"ND2", "NDK"} {
		fmt.Fprintf(&out, "%s: `go test ./%s -run 'TestConformance/<object>/<method>/<status>'` runs the test of a row%s.\n", family, tests[family], over[family])
	}
	out.WriteString("\n")
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
	return out.Bytes()
}

// tallies counts rows by object, in the order of the table, with a sum for each family.
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
