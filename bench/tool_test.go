package bench

import (
	"math"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestToolsOnLoopback runs the tools that are installed.
func TestToolsOnLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("runs each tool for seconds, which is their least; left out with -short")
	}
	for _, kind := range []string{KindIperf3, KindSockperf, KindUCX, KindFabric} {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath(tools[kind].program); err != nil {
				t.Skipf("%s is not installed", tools[kind].program)
			}
			end := End{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), netlabtest.FreePort(t)), Interface: "lo"}
			job := Job{Kind: kind, Local: end, Peer: end}
			for _, test := range tools[kind].tests {
				job.Specs = append(job.Specs, Spec{Test: test, Duration: 10 * time.Millisecond})
			}
			got := runBoth(t, job, here, here)
			if len(got.stages) > 0 {
				t.Logf("left out: %q", got.stages)
			}
			if len(got.baselines)+len(got.stages) != len(job.Specs) { // a very busy machine makes the tools fail
				t.Fatalf("%d figures and %q, want %d", len(got.baselines), got.stages, len(job.Specs))
			}
			for _, b := range got.baselines {
				if err := sane(b.Ops, b.Bytes, b.Seconds, b.Gbps, b.Mops, b.Test, b.LatUS); err != nil {
					t.Errorf("%s: %v", b.Test, err)
				}
			}
		})
	}
}

// TestToolThatDoesNotListenIsLeftOut: the tool's client reports the failure, and the run continues.
func TestToolThatDoesNotListenIsLeftOut(t *testing.T) {
	const kind = "deaf"
	tools[kind] = tool{
		program: "sh", tests: []Test{WriteLat}, parse: parseSockperf,
		server: func(Job, Spec) []string { return []string{"-c", "exec sleep 100"} },
		client: func(Job, Spec) []string { return []string{"-c", "echo nobody listens; exit 3"} },
	}
	defer func(before time.Duration) {
		delete(tools, kind)
		toolStart = before
	}(toolStart)
	toolStart = time.Millisecond
	end := End{Addr: netip.MustParseAddrPort("127.0.0.1:1")}
	got := runBoth(t, Job{Kind: kind, Local: end, Peer: end, Specs: []Spec{{Test: WriteLat}}}, here, here)
	if len(got.stages) != 1 || !strings.Contains(got.stages[0], "nobody listens") || len(got.baselines) != 0 {
		t.Errorf("%q and %d figures", got.stages, len(got.baselines))
	}
}

// TestToolThatFailsIsLeftOut: the run continues.
func TestToolThatFailsIsLeftOut(t *testing.T) {
	const kind = "broken"
	tools[kind] = tool{
		program: "sh", tests: []Test{WriteLat}, parse: parseSockperf,
		server: func(j Job, _ Spec) []string { return []string{"-c", "exec sleep 100"} },
		client: func(Job, Spec) []string { return []string{"-c", "echo cannot; exit 3"} },
	}
	defer delete(tools, kind)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := End{Addr: netip.MustParseAddrPort(l.Addr().String())}
	got := runBoth(t, Job{Kind: kind, Local: end, Peer: end, Specs: []Spec{{Test: WriteLat}, {Test: WriteLat}}}, here, here)
	if len(got.stages) != 2 || !strings.Contains(got.stages[0], "cannot") || len(got.baselines) != 0 {
		t.Errorf("%q and %d figures", got.stages, len(got.baselines))
	}
}

// TestWhatToolsSay parses recorded output of the tools, and refuses output without figures.
func TestWhatToolsSay(t *testing.T) {
	lat, bw := Spec{Test: WriteLat, Size: 64}, Spec{Test: WriteBW, Size: 1 << 20}
	for _, c := range []struct {
		kind, out string
		spec      Spec
		p50, gbps float64
	}{
		{KindIperf3, `{"end":{"sum_received":{"bytes":1250000000,"seconds":1},"cpu_utilization_percent":{"host_total":50,"remote_total":25}}}`, bw, 0, 10},
		{KindIperf3, `{"error":"unable to connect to server: Connection refused"}`, bw, 0, 0},
		{KindIperf3, ``, bw, 0, 0},
		{KindSockperf, "sockperf: [Valid Duration] RunTime=0.5 sec; SentMessages=8000; ReceivedMessages=8000\nsockperf: ---> <MAX> observation = 40.5\n" +
			"sockperf: ---> percentile 99.900 = 30\nsockperf: ---> percentile 99.000 =   20\nsockperf: ---> percentile 90.000 =   10\n" +
			"sockperf: ---> percentile 50.000 =    8.5\nsockperf: ---> <MIN> observation =    6\n", lat, 8.5, 0},
		{KindSockperf, "sockperf: ERROR: no messages were received\n", lat, 0, 0},
		{KindUCX, "| Test |\n+------+\n     3000      7.821   390.294    10.0        0.16       0.05        2562         870\n", lat, 7.821, 0},
		{KindUCX, "     100      0.2   390.294    1048.576        953       953        2562         870\n", bw, 0, 8},
		{KindUCX, "[error] no route\n", bw, 0, 0},
		{KindFabric, "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64      2k      =2k      250k        0.03s      9.14       7.00       0.14\n", lat, 7, 0},
		{KindFabric, "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n", lat, 0, 0},
		{KindFabric, "ctrl/connect: Connection refused\n", lat, 0, 0},
	} {
		var b Baseline
		err := tools[c.kind].parse([]byte(c.out), c.spec, &b)
		b.setRate()
		switch {
		case c.p50 == 0 && c.gbps == 0:
			if err == nil {
				t.Errorf("%s: %q passes for a figure", c.kind, c.out)
			}
		case err != nil:
			t.Errorf("%s: %v", c.kind, err)
		case c.p50 > 0 && (b.LatUS.P50 != c.p50 || sane(b.Ops, b.Bytes, b.Seconds, b.Gbps, b.Mops, WriteLat, b.LatUS) != nil):
			t.Errorf("%s: %+v, want a median of %g", c.kind, b.LatUS, c.p50)
		case c.gbps > 0 && (b.Gbps < 0.999*c.gbps || b.Gbps > 1.001*c.gbps):
			t.Errorf("%s: %g Gb/s, want %g", c.kind, b.Gbps, c.gbps)
		}
	}
}

// TestPingPongsOfToolsLastThereAndBack: all tools count a round trip as one operation, so half of its time is the mean of one way.
func TestPingPongsOfToolsLastThereAndBack(t *testing.T) {
	const oneWay = 10.0 // µs
	for kind, out := range map[string]string{
		KindSockperf: "sockperf: [Valid Duration] RunTime=0.02 sec; SentMessages=1000;\nsockperf: ---> percentile 50.000 = 10\n",
		KindUCX:      "     1000      10.0   10.0    10.0        0.16       0.05        2562         870\n",
		KindFabric:   "64      2k      =2k      250k        0.03s      9.14       10.00       0.14\n",
	} {
		var b Baseline
		if err := tools[kind].parse([]byte(out), Spec{Test: WriteLat, Size: 64}, &b); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if took := 1e6 * b.Seconds / float64(b.Ops) / 2; math.Abs(took-oneWay) > 1e-6 {
			t.Errorf("%s: %d operations in %g s are %g µs one way, want %g", kind, b.Ops, b.Seconds, took, oneWay)
		}
	}
}

// TestToolsStandBesideTheirTests: a Send is compared with tools only if its receiver sleeps.
func TestToolsStandBesideTheirTests(t *testing.T) {
	specs := []Spec{{Test: SendLat}, {Test: SendLat, Event: true}, {Test: WriteBW}, {Test: WriteRate}}
	n := map[string]int{}
	for _, j := range ToolRivals(specs, []string{KindIperf3, KindSockperf, KindUCX}) {
		for _, s := range j.Specs {
			n[j.Kind+" "+string(s.Test)]++
		}
	}
	for what, want := range map[string]int{"iperf3 write_bw": 2 * rivalRounds, "sockperf send_lat": 2 * rivalRounds, "ucx write_bw": 2 * rivalRounds} {
		if n[what] != want {
			t.Errorf("%s runs %d times, want %d", what, n[what], want)
		}
	}
	if len(n) != 3 || ToolRivals(specs, nil) != nil {
		t.Errorf("rivals are %v", n)
	}
}

// TestListenerIsFound: a listener is found in the kernel's table, and a connected port is no listener.
func TestListenerIsFound(t *testing.T) {
	const table = "  sl  local_address rem_address   st\n   0: 0100007F:1B58 00000000:0000 0A 0\n   1: 0100007F:1B59 0100007F:1B58 01 0\n"
	if !listens([]byte(table), 7000) || listens([]byte(table), 7001) || listens([]byte(table), 7002) {
		t.Error("the wrong port listens")
	}
}
