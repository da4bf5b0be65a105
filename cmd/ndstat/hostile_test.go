package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// hostile is text with which a process may try to control the terminal of a user of ndstat.
const hostile = "\x1b]0;x\a\x1b[2J\u009b2J\r\n1 forged row\u202e"

// answer serves one reply repeatedly at a socket, and returns its path.
func answer(t *testing.T, reply string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "1.sock")
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					if _, err := c.Write([]byte(reply + "\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return path
}

// wantPlain fails the test if text has other than printable characters, or another number of lines.
func wantPlain(t *testing.T, what, text string, lines int) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s steers the terminal at byte %d of %q", what, i, line)
		}
	}
	if n := strings.Count(text, "\n"); n != lines {
		t.Errorf("%s has %d lines, want %d:\n%q", what, n, lines, text)
	}
}

// TestHostileProcess shows a process that puts control sequences into every text of its answer, and a process that does so in an error.
func TestHostileProcess(t *testing.T) {
	zoned := netip.AddrPortFrom(netip.MustParseAddr("fe80::1%"+hostile), 1)
	drops := map[string]uint64{hostile: 7}
	for len(drops) < 3*maxDrops {
		drops[hostile+strings.Repeat("x", len(drops))] = 1
	}
	r := ndinspect.Reply{
		Version: ndinspect.Version, PID: 1, Command: hostile + strings.Repeat("long ", 1000), At: time.Now(), Datapath: hostile, Reason: hostile + strings.Repeat("long ", 1000), Capturing: true,
		Connections: []nd.ConnectionInfo{{Local: zoned, Remote: zoned, State: hostile, LimitedBy: hostile}},
	}
	r.Stats.Drops = drops
	b, err := json.Marshal(r)
	must(t, err)
	path := answer(t, string(b))
	out, problems, err := ndstat("--once", "--interval", "100ms", "--socket", path)
	must(t, err)
	wantPlain(t, "the table", out, 5) // header, row, datapath, captured, dropped
	wantPlain(t, "stderr", problems, 0)
	if len(out) > 8<<10 {
		t.Errorf("the table has %d bytes", len(out))
	}
	out, _, err = ndstat("--once", "--json", "--socket", path)
	must(t, err)
	wantPlain(t, "JSON", out, 1)
	var back ndinspect.Reply
	must(t, json.Unmarshal([]byte(out), &back))
	if back.Command != r.Command || back.Connections[0].Remote != zoned {
		t.Errorf("JSON says %q", back.Command)
	}

	b, err = json.Marshal(ndinspect.Reply{Version: ndinspect.Version, Error: hostile})
	must(t, err)
	good := answer(t, `{"version":3,"pid":2,"at":"2026-01-01T00:00:00Z","adapter":"192.0.2.1","connections":[]}`)
	both := []string{"--once", "--interval", "100ms", "--socket", answer(t, string(b)), "--socket", good}
	_, problems, err = ndstat(both...)
	must(t, err)
	wantPlain(t, "a problem", problems, 1)
	out, problems, err = ndstat(append(both, "--json")...) // JSON output contains every problem
	must(t, err)
	wantPlain(t, "a problem beside JSON", problems, 1)
	wantPlain(t, "JSON of who answers", out, 1)
}

// TestDatapathIsShown: the table shows whether sockets copy, and JSON also says why.
func TestDatapathIsShown(t *testing.T) {
	const reply = `{"version":3,"pid":%d,"at":"2026-01-01T00:00:00Z","adapter":"192.0.2.1","datapath":%q,"zero_copy":%t,"copying":%q,` +
		`"connections":[{"id":"1","peer_id":"2","local":"192.0.2.1:1","remote":"192.0.2.2:2"}]}`
	args := []string{"--once", "--interval", "100ms"}
	for i, c := range []struct {
		datapath string
		zeroCopy bool
		copying  string
	}{{"native", true, ""}, {"native", false, "the driver refused"}, {"udp", false, ""}} {
		args = append(args, "--socket", answer(t, fmt.Sprintf(reply, i, c.datapath, c.zeroCopy, c.copying)))
	}
	out, _, err := ndstat(args...)
	must(t, err)
	for _, want := range []string{"DATAPATH", "native, zero-copy", "native, copy", "udp  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	out, _, err = ndstat(append(args, "--json")...)
	if must(t, err); !strings.Contains(out, `"copying":"the driver refused"`) || !strings.Contains(out, `"zero_copy":true`) {
		t.Errorf("%s", out)
	}
}
