package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// Limits of a table.
const (
	maxRows  = 40 // connections
	maxName  = 40 // characters of a name that another process chose
	maxAddr  = 64 // characters of an address with port: 47 plus a zone
	maxWhy   = 200
	maxDrops = 40 // drop reasons of one process
)

// shown returns text from another process for printing, without control characters and shortened. All text of a Reply must pass
// through it, even addresses, because a zone can be any text.
func shown(said any) string { return shownUpTo(maxName, said) }

// shownUpTo is shown with another length.
func shownUpTo(most int, said any) string {
	s := []rune(cli.Printable(fmt.Sprint(said)))
	if len(s) > most {
		return string(s[:most-1]) + "…"
	}
	return string(s)
}

// header names the columns of the table.
var header = table.Row{
	"PID", "COMMAND", "DATAPATH", "LOCAL", "REMOTE", "STATE", "TLS", "LIMITED BY", "SHARE", "IN Mb/s", "OUT Mb/s", "RESENT", "FLIGHT", "WINDOW", "RTT",
	"QUEUEING", "WIRE", "HOLD", "FETCH",
}

// suites are short names of cipher suites for the column TLS.
var suites = map[string]string{"TLS_AES_128_GCM_SHA256": "A128", "TLS_AES_256_GCM_SHA384": "A256", "TLS_CHACHA20_POLY1305_SHA256": "C20"}

// encrypted returns the cell of the column TLS.
func encrypted(t *nd.TLSInfo) string {
	if t == nil {
		return "-"
	}
	if name, ok := suites[t.Suite]; ok {
		return name
	}
	return shown(t.Suite)
}

const (
	unnamed = 3 // columns without a name in a wrapped record
	words   = 8 // columns of text; figures follow
)

// render prints connections, and lines about their processes, for a terminal of this width. If width is 0, each is one line.
func (w *watch) render(out io.Writer, width int) {
	all := w.rows()
	rows := make([]table.Row, 0, len(all))
	for _, x := range all[:min(len(all), maxRows)] {
		rows = append(rows, cells(x))
	}
	if wide := asTable(rows); width == 0 || text.LongestLineLen(wide) <= width {
		fmt.Fprintln(out, wide)
	} else {
		foldRows(out, rows, width)
	}
	if w.noted == nil || w.redraws {
		w.noted = map[string]bool{}
	}
	say := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !w.noted[line] {
			w.noted[line] = true
			fmt.Fprintln(out, cli.Fold(line, width, "  "))
		}
	}
	if more := len(all) - maxRows; more > 0 {
		say("and %d more, which move less", more)
	}
	for _, path := range slices.Sorted(maps.Keys(w.now)) {
		sayOf(w.now[path], w.earlier(path), say)
	}
}

// cells returns the table row of a connection.
func cells(x row) table.Row {
	c := &x.conn
	return table.Row{
		x.process.PID, shown(x.process.Command), shown(moves(x.process)), shownUpTo(maxAddr, c.Local), shownUpTo(maxAddr, c.Remote), shown(c.State), encrypted(c.TLS), shown(x.limitedBy), fmt.Sprintf("%.0f %%", 100*x.share),
		megabits(x.in), megabits(x.out), x.resent, c.InFlight, c.Window, short(c.SmoothedRTT),
		short(c.Latency.Queueing), short(c.Latency.Wire), short(c.Latency.RemoteHold), short(c.Latency.Completion),
	}
}

func asTable(rows []table.Row) string {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	columns := make([]table.ColumnConfig, 0, len(header))
	for i := words; i < len(header); i++ {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	t.AppendRows(rows)
	return t.Render()
}

// foldRows prints connections for a terminal that is narrower than the table: the connection, and below it names and values.
func foldRows(out io.Writer, rows []table.Row, width int) {
	for _, r := range rows {
		which := make([]string, unnamed)
		for i := range which {
			which[i] = fmt.Sprint(r[i])
		}
		fmt.Fprintln(out, cli.Pack(which, "  ", width, "  "))
		var known []string
		for i := unnamed; i < len(r); i++ {
			if said := fmt.Sprint(r[i]); said != "" {
				known = append(known, fmt.Sprintf("%v %s", header[i], said))
			}
		}
		fmt.Fprintln(out, "  "+strings.ReplaceAll(cli.Pack(known, "  ", width-2, ""), "\n", "\n  "))
	}
}

// sayOf prints lines about a process. before is its earlier reply, with which counters are compared; nil for none.
func sayOf(r, before *ndinspect.Reply, say func(format string, args ...any)) {
	if r.Reason != "" {
		say("%d %s has datapath %s: %s", r.PID, shown(r.Command), shown(r.Datapath), shownUpTo(maxWhy, r.Reason))
	}
	if r.Capturing {
		say("%d %s is captured: capturing changes its figures", r.PID, shown(r.Command))
	}
	if line := sleeps(r, before); line != "" {
		say("%d %s %s", r.PID, shown(r.Command), line)
	}
	if line := bulkLane(r); line != "" {
		say("%d %s %s", r.PID, shown(r.Command), line)
	}
	sayTLS(r, say)
	if n := r.Stats.Drops[nd.DropVanished]; n > 0 {
		say("ALARM: %d packets for %d %s were redirected to its sockets and never came: see docs/OPERATING.md#troubleshooting, "+
			"or run ndinfo doctor", n, r.PID, shown(r.Command))
	}
	if len(r.Stats.Drops) > 0 {
		say("%d %s dropped since it began: %s", r.PID, shown(r.Command), counts(r.Stats.Drops))
	}
}

// maxPeers is how many encrypted connections of a process are described. JSON has all.
const maxPeers = 10

// sayTLS prints lines about the encryption of a process: its handshakes, and the peers of its connections.
func sayTLS(r *ndinspect.Reply, say func(format string, args ...any)) {
	if s := &r.Stats.TLS; s.Handshakes+s.HandshakesFailed > 0 {
		say("%d %s made %d TLS handshakes, %d failed, and changed keys %d times", r.PID, shown(r.Command), s.Handshakes, s.HandshakesFailed, s.KeyUpdates)
	}
	told := 0
	for i := range r.Connections {
		c := &r.Connections[i]
		if c.TLS == nil {
			continue
		}
		if told++; told > maxPeers {
			say("%d %s has more encrypted connections: --json shows all", r.PID, shown(r.Command))
			return
		}
		peer := shownUpTo(maxAddr, c.TLS.Peer)
		if peer == "" {
			peer = "a peer without a certificate"
		}
		say("%d %s: %s is %s, by %s and %s; keys %d out, %d in; %d packets with a wrong tag", r.PID, shown(r.Command), shownUpTo(maxAddr, c.Remote), peer,
			shown(c.TLS.Version), shown(c.TLS.Suite), c.TLS.GenerationOut, c.TLS.GenerationIn, c.TLS.Forged)
	}
}

// sleeps says how often a process slept until packets arrived, and how often polling made a sleep unnecessary, after the previous
// round or from the beginning. It is empty if both are zero.
func sleeps(r, before *ndinspect.Reply) string {
	now, old, since := r.Stats, nd.Stats{}, "since it began"
	if before != nil {
		old, since = before.Stats, "in "+short(r.At.Sub(before.At))
	}
	slept, spins, hits := now.Waits.Sleeps-old.Waits.Sleeps, now.Waits.Spins-old.Waits.Spins, now.Waits.SpinHits-old.Waits.SpinHits
	if slept == 0 && spins == 0 {
		return ""
	}
	return fmt.Sprintf("%s: sleeps %d, spins %d, hits %d", since, slept, spins, hits)
}

// bulkLane describes the bulk path of a process and its traffic. It is empty without one. On plain sockets the bulk path has no
// port of its own, and is described if it was used.
func bulkLane(r *ndinspect.Reply) string {
	if r.BulkPort == 0 && r.Stats.Bulk.Proven == 0 && r.Stats.Bulk.PacketsIn == 0 {
		return ""
	}
	s, by := &r.Stats, map[string]int{} // number of connections by state
	for i := range r.Connections {
		by[r.Connections[i].BulkLane]++
	}
	line := "bulk lane"
	if r.BulkPort != 0 {
		line += fmt.Sprintf(", port %d", r.BulkPort)
	}
	line += fmt.Sprintf(": %d connections", by["proven"])
	line += fmt.Sprintf(", %d packets in, %d out, %d merged", s.Bulk.PacketsIn, s.Bulk.PacketsOut, s.Sockets.Merged)
	if s.Bulk.Left > 0 {
		line += fmt.Sprintf("; left %d times: no answer %d, time-out %d, loss %d", s.Bulk.Left, s.Bulk.Unanswered, s.Bulk.TimedOut, s.Bulk.Lossy)
	}
	if s.Bulk.Long > 0 {
		line += fmt.Sprintf("; long packets begun %d times, ended %d times by loss", s.Bulk.Long, s.Bulk.LongLeft)
	}
	if r.NoBulk != "" {
		line += "; closed: " + shown(r.NoBulk)
	}
	return line
}

// moves describes the datapath, and for AF_XDP whether its sockets copy.
func moves(r *ndinspect.Reply) string {
	switch {
	case r.ZeroCopy:
		return r.Datapath + ", zero-copy"
	case r.Copying != "":
		return r.Datapath + ", copy"
	case r.Apart != "":
		return r.Datapath + ", packet by packet"
	}
	return r.Datapath
}

func counts(m map[string]uint64) string {
	var parts []string
	names := slices.Sorted(maps.Keys(m))
	for _, name := range names[:min(len(names), maxDrops)] {
		parts = append(parts, fmt.Sprintf("%s %d", shown(name), m[name]))
	}
	if more := len(names) - maxDrops; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

func megabits(bytesPerSecond float64) string {
	return strconv.FormatFloat(bytesPerSecond*8/1e6, 'f', 1, 64)
}

// short formats a duration with two or three digits, and zero as nothing.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond / 10).String()
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	}
	return d.Round(time.Second / 10).String()
}
