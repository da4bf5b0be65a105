package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	return t
}

// renderListing prints adapters, interfaces that are down, and facts that could not be read, for a terminal of this width. If width
// is 0, each record is one line.
func renderListing(w io.Writer, l *listing, width int) {
	renderList(w, l.Adapters, width)
	lines := slices.Clone(l.Unseen)
	if len(l.Down) > 0 {
		lines = append(lines, downLine(namesOf(l.Down)))
	}
	if len(lines) > 0 {
		fmt.Fprintln(w)
	}
	for _, line := range lines {
		fmt.Fprintln(w, cli.Fold(line, width, gap))
	}
	if len(l.Adapters) > 0 {
		renderLimits(w, &l.Adapters[0].Limits, width)
	}
}

func renderList(w io.Writer, list []ndhealth.Adapter, width int) {
	if len(list) == 0 {
		fmt.Fprintln(w, cli.Fold("No adapter: no interface that is up has an address (ip address).", width, gap))
		return
	}
	header, rows := table.Row{"address", "interface", "driver", "queues rx/tx", "MTU", "datapath", "why"}, []table.Row{}
	for i := range list {
		a, why := &list[i], list[i].Reason
		if !a.Carrier {
			why = "the interface has no carrier; " + why
		}
		rows = append(rows, table.Row{
			a.Address, a.Interface, a.Driver, fmt.Sprintf("%d/%d", a.RxQueues, a.TxQueues), a.MTU, a.Datapath, why,
		})
	}
	renderSentences(w, header, rows, width)
	header, rows = openBy(list)
	if len(rows) > 0 {
		fmt.Fprintln(w)
		renderSentences(w, header, rows, width)
	}
}

// renderSentences prints a table whose last column has sentences. The sentences are beside the first columns if there is room, and
// otherwise below them. If the first columns are wider than the terminal, each record is wrapped.
func renderSentences(w io.Writer, header table.Row, rows []table.Row, width int) {
	at, last := 0, len(header)-1
	for c := range header[:last] {
		widest := utf8.RuneCountInString(fmt.Sprint(header[c]))
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(fmt.Sprint(row[c])))
		}
		at += widest + 2 // go-pretty adds a space on either side
	}
	if width > 0 && at > width {
		for _, row := range rows {
			renderRecord(w, header, row, width)
		}
		return
	}
	room := width - at - 2
	beneath := width > 0 && room < leastColumn
	if beneath {
		header = header[:last]
	}
	t := newTable(w, header...)
	for _, row := range rows {
		said := fmt.Sprint(row[last])
		if beneath {
			t.AppendRow(row[:last])
			continue
		}
		t.AppendRow(append(slices.Clone(row[:last]), cli.Fold(said, max(room, 0), "")))
	}
	t.Render()
	if beneath {
		for _, row := range rows {
			fmt.Fprintln(w, cli.Fold(fmt.Sprintf(" %v %v: %v", row[0], row[1], row[last]), width, "   "))
		}
	}
}

// renderRecord prints a row as pairs of names and values, with sentences on separate lines.
func renderRecord(w io.Writer, header, row table.Row, width int) {
	last := len(header) - 1
	parts := []string{fmt.Sprintf(" %v %v", row[0], row[1])}
	for c := 2; c < last; c++ {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%v %v", header[c], row[c])))
	}
	fmt.Fprintln(w, cli.Pack(parts, ", ", width, "   "))
	fmt.Fprintln(w, "   "+cli.Fold(fmt.Sprint(row[last]), width-len("   "), "   "))
}

// openBy returns a table of open adapters, their processes and the properties of their sockets.
func openBy(list []ndhealth.Adapter) (header table.Row, rows []table.Row) {
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
			rows = append(rows, table.Row{list[i].Address, r.PID, cli.Printable(r.Command), cli.Printable(r.Datapath), cli.Printable(copied)})
		}
	}
	return table.Row{"address", "open by", "", "datapath", "packets"}, rows
}

// renderLimits prints ND2_ADAPTER_INFO, which differs between adapters only in the id. Three limits are on a line if there is room.
func renderLimits(w io.Writer, l *nd.Info, width int) {
	fmt.Fprintln(w, "\nLimits of every adapter (bytes, requests)")
	limits := [][]table.Row{
		{
			{"registration", l.MaxRegistrationSize},
			{"window", l.MaxWindowSize},
			{"private data, connect", l.MaxCallerData},
			{"private data, accept", l.MaxCalleeData},
		},
		{
			{"initiator depth", l.MaxInitiatorQueueDepth},
			{"receive depth", l.MaxReceiveQueueDepth},
			{"shared receive depth", l.MaxSharedReceiveQueueDepth},
			{"completion depth", l.MaxCompletionQueueDepth},
		},
		{
			{"transfer", l.MaxTransferLength},
			{"inline data", l.MaxInlineDataSize},
			{"SGEs: send, receive, read", fmt.Sprintf("%d, %d, %d", l.MaxInitiatorSGE, l.MaxReceiveSGE, l.MaxReadSGE)},
			{"reads at once: in, out", fmt.Sprintf("%d, %d", l.MaxInboundReadLimit, l.MaxOutboundReadLimit)},
		},
	}
	if width > 0 && width < widthOfLimits {
		t := newTable(w, "what", "at most")
		for _, kind := range limits {
			t.AppendRows(kind)
		}
		t.Render()
		return
	}
	t := newTable(w, "memory", "", "queues", "", "requests", "")
	for i := range limits[0] {
		t.AppendRow(slices.Concat(limits[0][i], limits[1][i], limits[2][i]))
	}
	t.Render()
}

// widthOfLimits is the width of three limits on a line.
const widthOfLimits = 104

// namesOf returns the names of interfaces, with their addresses.
func namesOf(interfaces []ndhealth.Interface) []string {
	names := make([]string, 0, len(interfaces))
	for _, i := range interfaces {
		var name strings.Builder
		name.WriteString(i.Name)
		for _, a := range i.Addresses {
			name.WriteString(" " + a.Addr().String())
		}
		names = append(names, name.String())
	}
	return names
}
