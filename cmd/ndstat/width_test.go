package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// TestTableFits: on a terminal of 80 columns each connection is wrapped, with all values of the table under the same names. A pipe, and a
// terminal that is wide enough, get the table with a line for each connection.
func TestTableFits(t *testing.T) {
	local, remote := netip.MustParseAddrPort("[2001:db8:1234:5678:9abc:def0:1234:5678]:65535"), netip.MustParseAddrPort("192.0.2.1:7200")
	c := nd.ConnectionInfo{ID: 1, Local: local, Remote: remote, State: "open", LimitedBy: "flow control", Window: 1 << 20, InFlight: 1 << 19, SmoothedRTT: 12345678}
	c.Latency.Queueing, c.Latency.Wire, c.Latency.RemoteHold, c.Latency.Completion = 1234, 12345, 123456, time.Second
	r := &ndinspect.Reply{
		PID: 4194304, Command: "a-command-of-many-characters", Datapath: "generic", Copying: "so", Reason: strings.Repeat("words of it ", 15) + "end",
		Connections: []nd.ConnectionInfo{c, c}, Capturing: true,
	}
	r.Stats.Drops = map[string]uint64{"vanished": 100, "bad_checksum": 7, "rx_dropped": 8, "tx_lost": 9, "stale": 10}
	w := &watch{now: map[string]*ndinspect.Reply{"7.sock": r}, redraws: true}
	for _, width := range []int{80, 300, 0} {
		var out bytes.Buffer
		w.render(&out, width)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		said := strings.Join(strings.Fields(out.String()), " ")
		for _, name := range header[unnamed:] {
			if !strings.Contains(said, fmt.Sprint(name)) {
				t.Errorf("%d columns: no %s in\n%s", width, name, &out)
			}
		}
		for _, want := range []string{local.String(), remote.String(), "generic, copy", "flow control", "1048576", "12.3ms", "123.5µs", "words of it end", "vanished 100", "ALARM"} {
			if !strings.Contains(said, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, &out)
			}
		}
		// header, two connections, and lines for the datapath, the capture, the alarm and the drops
		if n := strings.Count(out.String(), "\n"); width == 0 && n != 7 {
			t.Errorf("%d lines in a pipe:\n%s", n, &out)
		}
		if got := strings.Contains(out.String(), "PID "); got != (width != 80) {
			t.Errorf("%d columns: a table is %v:\n%s", width, got, &out)
		}
	}
}
