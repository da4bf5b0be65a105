package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// Width of the beginning of a line of doctor: a severity and the name of a check.
const (
	severityWidth = len("problem")
	checkWidth    = len("socket buffers")
	gap           = "  "
	foundAt       = severityWidth + checkWidth + 2*len(gap)
)

// renderDiagnosis prints findings for a terminal of this width. If width is 0, each finding is one line. Remedies are never
// wrapped, because users copy them.
func renderDiagnosis(w io.Writer, d *diagnosis, width int) {
	paint := painter(w)
	for i := range d.Reports {
		r := &d.Reports[i]
		name := strings.TrimSpace(cli.Printable(r.Interface) + " " + r.Address)
		fmt.Fprintln(w, cli.Fold(fmt.Sprintf("%s, datapath %s: %s", name, r.Datapath, cli.Printable(r.Reason)), width, gap))
		for _, f := range r.Findings {
			renderFinding(w, paint, f, width)
		}
		fmt.Fprintln(w)
	}
	if len(d.Down) > 0 {
		fmt.Fprintln(w, cli.Fold(downLine(d.Down), width, gap))
	}
	for _, line := range d.Unseen {
		fmt.Fprintln(w, cli.Fold(line, width, gap))
	}
	if s := d.SelfTest; s != nil {
		severity := ndhealth.OK
		if !s.Works {
			severity = ndhealth.Problem
		}
		fmt.Fprintln(w, cli.Fold(fmt.Sprintf("self test %s: %s", paint(severity), s.Said), width, gap))
	}
	switch {
	case d.Works:
	case slices.ContainsFunc(d.Reports, func(r ndhealth.Report) bool { return r.WorksHere() && !r.Works() }):
		fmt.Fprintln(w, cli.Fold("ND can run on this machine; the peer does not answer: see the finding about it above.", width, gap))
	default:
		fmt.Fprintln(w, "ND cannot run here: see the problems above.")
	}
}

func renderFinding(w io.Writer, paint func(ndhealth.Severity) string, f ndhealth.Finding, width int) {
	found, why, remedy := cli.Printable(f.Found), "why: "+cli.Printable(f.Why), cli.Printable(f.Remedy)
	pad := strings.Repeat(" ", max(severityWidth-len(f.Severity.String()), 0))
	fmt.Fprintf(w, "%s%s%s%-*s%s", paint(f.Severity), pad, gap, checkWidth, f.Check, gap)
	switch {
	case f.Severity == ndhealth.OK:
		fmt.Fprintln(w, folded(found, width))
	case width == 0:
		fmt.Fprintf(w, "%s; %s; do: %s\n", found, why, remedy)
	default:
		indent := strings.Repeat(" ", foundAt)
		fmt.Fprintf(w, "%s\n%s%s\n%sdo:  %s\n", folded(found, width), indent, folded(why, width), indent, remedy)
	}
}

// leastColumn is the least width of a column of sentences. On a narrower terminal, the terminal wraps lines.
const leastColumn = 20

// folded wraps the text beside the name of a check.
func folded(said string, width int) string { return column(said, width, foundAt) }

// column wraps text that begins at a given column.
func column(said string, width, at int) string {
	if width == 0 || width-at < leastColumn {
		return said
	}
	return strings.ReplaceAll(cli.Fold(said, width-at, ""), "\n", "\n"+strings.Repeat(" ", at))
}

// downLine returns the line about interfaces that are down.
func downLine(names []string) string {
	return "down: " + cli.Printable(strings.Join(names, ", ")) + "; to set one up: ip link set NAME up"
}

// painter returns a function that colours severities, on terminals only.
func painter(w io.Writer) func(ndhealth.Severity) string {
	if !cli.Colours(w) {
		return ndhealth.Severity.String
	}
	return func(s ndhealth.Severity) string {
		colour := map[ndhealth.Severity]text.Color{ndhealth.OK: text.FgGreen, ndhealth.Hint: text.FgYellow, ndhealth.Problem: text.FgRed}
		return colour[s].EscapeSeq() + s.String() + text.Reset.EscapeSeq()
	}
}
