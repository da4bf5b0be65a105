package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ndxdp/ndxdp/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// widest is how far a column of sentences goes before it wraps.
const widest = 70

func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

func renderAdapters(w io.Writer, list []ndhealth.Adapter) {
	if len(list) == 0 {
		fmt.Fprintln(w, "No adapter: no interface that is up has an address (ip address).")
		return
	}
	t := newTable(w, "address", "interface", "driver", "queues rx/tx", "MTU", "datapath", "why")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 7, WidthMax: widest}})
	for i := range list {
		a := &list[i]
		t.AppendRow(table.Row{
			a.Address, a.Interface, a.Driver, fmt.Sprintf("%d/%d", a.RxQueues, a.TxQueues), a.MTU, a.Datapath, a.Reason,
		})
	}
	t.Render()
	renderOpen(w, list)
	renderLimits(w, &list[0].Limits)
}

// renderOpen prints who has adapters open, and what their sockets turned out to be.
func renderOpen(w io.Writer, list []ndhealth.Adapter) {
	t := newTable(w, "address", "open by", "", "datapath", "packets")
	for i := range list {
		for _, r := range list[i].OpenBy {
			copied := "zero-copy"
			switch {
			case r.Copying != "":
				copied = "copied: " + r.Copying
			case r.Apart != "":
				copied = "plain sockets, packet by packet: " + r.Apart
			case !r.ZeroCopy:
				copied = "plain sockets"
			}
			switch {
			case r.BulkPort != 0 && r.NoBulk == "":
				copied += fmt.Sprintf("; bulk lane on UDP port %d", r.BulkPort)
			case r.BulkPort != 0:
				copied += "; bulk lane closed: " + r.NoBulk
			}
			t.AppendRow(table.Row{list[i].Address, r.PID, cli.Printable(r.Command), cli.Printable(r.Datapath), cli.Printable(copied)})
		}
	}
	if t.Length() > 0 {
		fmt.Fprintln(w)
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: widest}})
		t.Render()
	}
}

// renderLimits prints ND2_ADAPTER_INFO, which is the same for all adapters but for the id.
func renderLimits(w io.Writer, l *nd.Info) {
	fmt.Fprintln(w, "\nLimits of every adapter (bytes, requests)")
	t := newTable(w, "memory", "", "queues", "", "requests", "")
	t.AppendRows([]table.Row{
		{"registration", l.MaxRegistrationSize, "initiator depth", l.MaxInitiatorQueueDepth, "transfer", l.MaxTransferLength},
		{"window", l.MaxWindowSize, "receive depth", l.MaxReceiveQueueDepth, "inline data", l.MaxInlineDataSize},
		{
			"private data, connect", l.MaxCallerData, "shared receive depth", l.MaxSharedReceiveQueueDepth, "SGEs: send, receive, read",
			fmt.Sprintf("%d, %d, %d", l.MaxInitiatorSGE, l.MaxReceiveSGE, l.MaxReadSGE),
		},
		{
			"private data, accept", l.MaxCalleeData, "completion depth", l.MaxCompletionQueueDepth, "reads at once: in, out",
			fmt.Sprintf("%d, %d", l.MaxInboundReadLimit, l.MaxOutboundReadLimit),
		},
	})
	t.Render()
}

func renderDiagnosis(w io.Writer, d *diagnosis) {
	paint := painter(w)
	for i := range d.Reports {
		r := &d.Reports[i]
		fmt.Fprintf(w, "%s %s, datapath %s: %s\n", cli.Printable(r.Interface), r.Address, r.Datapath, cli.Printable(r.Reason))
		t := newTable(w, "", "check", "found")
		for _, f := range r.Findings {
			t.AppendRow(table.Row{paint(f.Severity), f.Check, cli.Printable(f.Found)})
			if f.Severity != ndhealth.OK {
				t.AppendRow(table.Row{"", "", "why: " + cli.Printable(f.Why)})
				t.AppendRow(table.Row{"", "", "do:  " + cli.Printable(f.Remedy)})
			}
		}
		t.Render()
		fmt.Fprintln(w)
	}
	if s := d.SelfTest; s != nil {
		severity := ndhealth.OK
		if !s.Works {
			severity = ndhealth.Problem
		}
		fmt.Fprintf(w, "self test %s: %s\n", paint(severity), s.Said)
	}
	switch {
	case d.Works:
	case slices.ContainsFunc(d.Reports, func(r ndhealth.Report) bool { return r.WorksHere() && !r.Works() }):
		fmt.Fprintln(w, "ND can run on this machine; the peer does not answer: see the finding about it above.")
	default:
		fmt.Fprintln(w, "ND cannot run here: see the problems above.")
	}
}

// painter colours severities on terminals.
func painter(w io.Writer) func(ndhealth.Severity) string {
	if !cli.Colours(w) {
		return ndhealth.Severity.String
	}
	return func(s ndhealth.Severity) string {
		colour := map[ndhealth.Severity]text.Color{ndhealth.OK: text.FgGreen, ndhealth.Hint: text.FgYellow, ndhealth.Problem: text.FgRed}
		return colour[s].EscapeSeq() + s.String() + text.Reset.EscapeSeq()
	}
}
