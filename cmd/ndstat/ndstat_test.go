package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

var must = testhelp.Must

// The addresses of the two adapters of a test.
var loopback = netlabtest.Loopback()

// newConnection connects two endpoints over loopback and opens the first one's adapter to ndstat.
func newConnection(t *testing.T) *nd.Endpoint {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	cfg := nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite, Datapath: nd.DatapathUDP, UDPPort: netlabtest.FreePort(t)}
	at := netip.AddrPortFrom(loopback[1], 7200)
	hidden, err := nd.OpenAdapter(nd.AdapterConfig{Address: at.Addr(), Datapath: cfg.Datapath, UDPPort: cfg.UDPPort, Inspect: nd.InspectOff})
	must(t, err)
	t.Cleanup(func() { must(t, hidden.Close()) })
	cfg.Adapter = hidden
	l, err := nd.Listen(at, cfg)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	cfg.Adapter, err = nd.OpenAdapter(nd.AdapterConfig{Address: loopback[0], Datapath: cfg.Datapath, UDPPort: cfg.UDPPort})
	must(t, err)
	t.Cleanup(func() { must(t, cfg.Adapter.Close()) })
	go func() { _, _ = l.Accept(t.Context()) }() // Dial reports whether the connection was accepted
	e, err := nd.Dial(t.Context(), at, cfg)
	must(t, err)
	return e
}

func ndstat(args ...string) (stdout, stderr string, err error) {
	var out, problems bytes.Buffer
	cmd := newRoot()
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), problems.String(), err
}

// TestOnceShowsWhatLimitsAConnection shows a connection of a running adapter, as a table and as JSON.
func TestOnceShowsWhatLimitsAConnection(t *testing.T) {
	newConnection(t)
	self := strconv.Itoa(os.Getpid())
	out, problems, err := ndstat("--once", "--interval", "100ms", "--pid", self)
	must(t, err)
	for _, want := range []string{"LIMITED BY", self, loopback[1].String() + ":7200", "open", "application", "100 %", "has datapath udp: asked for"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if problems != "" {
		t.Errorf("problems: %s", problems)
	}
	out, _, err = ndstat("--once", "--json", "--pid", self, "--peer", loopback[1].String())
	must(t, err)
	var r ndinspect.Reply
	must(t, json.Unmarshal([]byte(out), &r))
	if r.PID != os.Getpid() || r.Reason != "asked for" || len(r.Connections) != 1 || strings.Count(out, "\n") != 1 {
		t.Errorf("%s", out)
	}
}

// TestSleepsAreShown: ndstat shows how often a process slept and polled after the last round, and nothing for a process that only polls.
func TestSleepsAreShown(t *testing.T) {
	at := time.Now()
	before := &ndinspect.Reply{PID: 7, At: at, Stats: nd.Stats{Waits: nd.WaitStats{Spins: 10, SpinHits: 4, Sleeps: 100}}}
	now := &ndinspect.Reply{PID: 7, At: at.Add(time.Second), Stats: nd.Stats{Waits: nd.WaitStats{Spins: 30, SpinHits: 19, Sleeps: 105}}}
	for _, c := range []struct {
		what        string
		now, before *ndinspect.Reply
		want        string
	}{
		{"in the first round", now, nil, "since it began: sleeps 105, spins 30, hits 19"},
		{"later", now, before, "in 1s: sleeps 5, spins 20, hits 15"},
		{"another process of that name", now, &ndinspect.Reply{PID: 8, At: at}, "since it began: sleeps 105, spins 30, hits 19"},
		{"an adapter that was opened anew", before, now, "since it began: sleeps 100, spins 10, hits 4"},
		{"asleep or polling", now, now, ""},
	} {
		w := watch{now: map[string]*ndinspect.Reply{"x": c.now}, before: map[string]*ndinspect.Reply{"x": c.before}}
		if got := sleeps(c.now, w.earlier("x")); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestNotesArePrintedOnce(t *testing.T) {
	reply := &ndinspect.Reply{PID: 7, Command: "x", Datapath: "udp", Reason: "asked for"}
	for _, redraws := range []bool{false, true} {
		w := watch{now: map[string]*ndinspect.Reply{"a": reply, "b": reply}, redraws: redraws}
		var out bytes.Buffer
		w.render(&out, 0)
		w.render(&out, 0)
		want := map[bool]int{false: 1, true: 2}[redraws]
		if n := strings.Count(out.String(), "7 x has datapath udp: asked for"); n != want {
			t.Errorf("redraws %v: the note stands %d times in two rounds, want %d:\n%s", redraws, n, want, &out)
		}
	}
}

// TestBulkLaneIsShown: ndstat shows the port of the bulk path, its traffic, why it was left, and that it is closed. It shows nothing for
// a process without a bulk path.
func TestBulkLaneIsShown(t *testing.T) {
	r := &ndinspect.Reply{NoBulk: "not asked for", Stats: nd.Stats{Sockets: nd.SocketStats{Merged: 3}}}
	if got := bulkLane(r); got != "" {
		t.Errorf("without a lane: %q", got)
	}
	r = &ndinspect.Reply{Stats: nd.Stats{Bulk: nd.BulkStats{Proven: 1, PacketsIn: 1}}, Connections: []nd.ConnectionInfo{{BulkLane: "proven"}}}
	if got, want := bulkLane(r), "bulk lane: 1 connections, 1 packets in, 0 out, 0 merged"; got != want {
		t.Errorf("of plain sockets: %q, want %q", got, want)
	}
	r = &ndinspect.Reply{
		BulkPort: 4000, Stats: nd.Stats{Bulk: nd.BulkStats{PacketsIn: 1, PacketsOut: 2}, Sockets: nd.SocketStats{Merged: 3}},
		Connections: []nd.ConnectionInfo{{BulkLane: "proven"}, {BulkLane: "unproven"}, {}},
	}
	want := "bulk lane, port 4000: 1 connections, 1 packets in, 2 out, 3 merged"
	if got := bulkLane(r); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.NoBulk = "merged packets arrived damaged\x1b[2J"
	r.Stats.Bulk.Left, r.Stats.Bulk.Unanswered, r.Stats.Bulk.TimedOut, r.Stats.Bulk.Lossy = 6, 1, 2, 3
	want += "; left 6 times: no answer 1, time-out 2, loss 3; closed: merged packets arrived damaged"
	if got := bulkLane(r); !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTapIsSeen: the table says that a process is captured while it is.
func TestTapIsSeen(t *testing.T) {
	e := newConnection(t)
	const mark = "is captured: capturing changes its figures"
	tap, err := e.Adapter.StartCapture(nd.CaptureConfig{})
	must(t, err)
	out, _, err := ndstat("--once", "--interval", "100ms", "--pid", strconv.Itoa(os.Getpid()))
	if want := strconv.Itoa(os.Getpid()) + " "; err != nil || !strings.Contains(out, mark) || !strings.Contains(out, "\n"+want) {
		t.Errorf("with a tap: %v\n%s", err, out)
	}
	tap.Stop()
	if out, _, err = ndstat("--once", "--interval", "100ms", "--pid", strconv.Itoa(os.Getpid())); err != nil || strings.Contains(out, mark) {
		t.Errorf("without a tap: %v\n%s", err, out)
	}
}

// TestErrorsSayWhatToDo: each error has advice.
func TestErrorsSayWhatToDo(t *testing.T) {
	newConnection(t)
	missing := t.TempDir() + "/x.sock"
	for _, x := range []struct{ args, want string }{
		{"--interval 1ms", "choose at least 100ms"},
		{"--peer no/body", "examples: 192.0.2.7"},
		{"--pid 1 --once", "ndstat without --pid lists all processes that can be inspected"},
		{"--socket " + missing, "the process that made the socket ended"},
		{"more", "unknown command"},
	} {
		if _, _, err := ndstat(strings.Fields(x.args)...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("ndstat %s: %v", x.args, err)
		}
	}
	if out, _, err := ndstat("--help"); err != nil || !strings.Contains(out, "ndperf loop\n") {
		t.Errorf("help: %v\n%s", err, out)
	}
	if out, _, err := ndstat("completion", "bash"); err != nil || !strings.Contains(out, "ndstat") {
		t.Errorf("completion: %v", err)
	}
}

// TestRowsAreOfTheInterval: traffic before the last interval is not shown.
func TestRowsAreOfTheInterval(t *testing.T) {
	old := nd.ConnectionInfo{ID: 1, BytesIn: 100, BytesOut: 1000, Retransmits: 5, LimitedBy: "application"}
	old.Limited.Application = time.Hour
	c := old
	c.BytesIn, c.BytesOut, c.Retransmits = 300, 5000, 7
	c.Limited.Application += time.Second / 4
	c.Limited.Fabric = 3 * time.Second / 4
	began := time.Now()
	reply := func(at time.Duration, c nd.ConnectionInfo) map[string]*ndinspect.Reply {
		return map[string]*ndinspect.Reply{"x": {PID: 1, At: began.Add(at), Connections: []nd.ConnectionInfo{c}}}
	}
	w := &watch{before: reply(0, old), now: reply(2*time.Second, c)}
	rows := w.rows()
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	if x := rows[0]; x.in != 100 || x.out != 2000 || x.resent != 2 || x.limitedBy != "fabric" || x.share != 0.75 {
		t.Errorf("%+v", x)
	}
	w.before["x"].PID = 2 // another process took the socket's name
	if x := w.rows()[0]; x.in != 0 || x.out != 0 || x.limitedBy != "application" {
		t.Errorf("a new process: %+v", x)
	}
}

// TestCountersThatBeganAgain: if an adapter was closed and opened, the counters of its connections count from zero, even if a connection
// has the number of an earlier one.
func TestCountersThatBeganAgain(t *testing.T) {
	began := time.Now()
	reply := func(at time.Duration, packets uint64, c nd.ConnectionInfo) map[string]*ndinspect.Reply {
		return map[string]*ndinspect.Reply{"x": {PID: 1, At: began.Add(at), Stats: nd.Stats{Packets: nd.PacketStats{In: packets}}, Connections: []nd.ConnectionInfo{c}}}
	}
	old, c := nd.ConnectionInfo{ID: 1, BytesIn: 500, BytesOut: 500, Retransmits: 5}, nd.ConnectionInfo{ID: 1, BytesIn: 100, BytesOut: 200, Retransmits: 2}
	w := &watch{before: reply(0, 9, old), now: reply(2*time.Second, 7, c)}
	if x := w.rows()[0]; x.in != 0 || x.out != 0 || x.resent != 2 {
		t.Errorf("an adapter that was opened anew: %+v", x)
	}
	w.now = reply(2*time.Second, 11, c)
	if x := w.rows()[0]; x.in != 50 || x.out != 100 || x.resent != 2 {
		t.Errorf("a connection with the number of another one: %+v", x)
	}
}

// TestRatesOfAnAdapterThatIsNew: the counters of an adapter that was opened after the last round count from zero, whatever adapter had
// its socket before. Larger counters do not make it the earlier adapter.
func TestRatesOfAnAdapterThatIsNew(t *testing.T) {
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	old := ndinspect.Reply{
		PID: 1, At: at(2), Opened: at(-9), Stats: nd.Stats{Packets: nd.PacketStats{In: 9}, Waits: nd.WaitStats{Sleeps: 3}},
		Connections: []nd.ConnectionInfo{{ID: 1, BytesIn: 500, BytesOut: 500, Retransmits: 5}},
	}
	anew := ndinspect.Reply{
		PID: 1, At: at(4), Opened: at(3.5), Stats: nd.Stats{Packets: nd.PacketStats{In: 11}, Waits: nd.WaitStats{Sleeps: 7}},
		Connections: []nd.ConnectionInfo{{ID: 1, BytesIn: 1000, BytesOut: 2000, Retransmits: 8}},
	}
	fewer, elder := anew, anew
	fewer.Stats = nd.Stats{Waits: nd.WaitStats{Sleeps: 7}} // fewer than the earlier adapter
	elder.Opened = at(-5)
	for _, c := range []struct {
		name        string
		before, now *ndinspect.Reply
		in, out     float64
		resent      uint64
		sleeps      string
	}{
		{"in the place of another one", &old, &anew, 2000, 4000, 8, "in 500ms: sleeps 7, spins 0, hits 0"},
		{"with counters below it", &old, &fewer, 2000, 4000, 8, "in 500ms: sleeps 7, spins 0, hits 0"},
		{"in a place of its own", nil, &anew, 2000, 4000, 8, "in 500ms: sleeps 7, spins 0, hits 0"},
		{"that was not shown before", nil, &elder, 0, 0, 8, "since it began: sleeps 7, spins 0, hits 0"},
		{"that is the same", &old, &ndinspect.Reply{PID: 1, At: at(4), Opened: old.Opened, Stats: anew.Stats, Connections: anew.Connections}, 250, 750, 3, "in 2s: sleeps 4, spins 0, hits 0"},
	} {
		w := &watch{last: at(2), at: at(4), before: map[string]*ndinspect.Reply{}, now: map[string]*ndinspect.Reply{"x": c.now}}
		if c.before != nil {
			w.before["x"] = c.before
		}
		if x := w.rows()[0]; x.in != c.in || x.out != c.out || x.resent != c.resent {
			t.Errorf("%s: %g in, %g out, %d resent, want %g, %g and %d", c.name, x.in, x.out, x.resent, c.in, c.out, c.resent)
		}
		if got := sleeps(c.now, w.earlier("x")); got != c.sleeps {
			t.Errorf("%s: %q, want %q", c.name, got, c.sleeps)
		}
	}
}

// TestVanishedPacketsAreAnAlarm: the table reports packets that were redirected and never arrived.
func TestVanishedPacketsAreAnAlarm(t *testing.T) {
	w := watch{now: map[string]*ndinspect.Reply{"7.sock": {PID: 7, Command: "server", Stats: nd.Stats{Drops: map[string]uint64{"crc": 1}}}}}
	var out bytes.Buffer
	w.render(&out, 0)
	if strings.Contains(out.String(), "ALARM") {
		t.Errorf("an alarm without a reason:\n%s", &out)
	}
	w.now["7.sock"].Stats.Drops[nd.DropVanished] = 80
	w.render(&out, 0)
	if !strings.Contains(out.String(), "ALARM: 80 packets for 7 server were redirected to its sockets and never came") {
		t.Errorf("no alarm:\n%s", &out)
	}
}

// TestAlikeProblemsAreToldOnce: a sandbox without Unix sockets is one problem, however many processes cannot be queried.
func TestAlikeProblemsAreToldOnce(t *testing.T) {
	sandbox := errors.New("Unix sockets are refused")
	got := distinct(slices.Values([]error{sandbox, errors.New("Unix sockets are refused"), errors.New("another"), sandbox}))
	if len(got) != 2 || got[0] != sandbox || got[1].Error() != "another" {
		t.Errorf("%q", got)
	}
}
