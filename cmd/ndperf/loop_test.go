package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// nobody is a user without privileges.
const nobody = 65534

// runAsNobody runs ndperf as a user without privileges, with a free UDP port and the report on its standard output.
func runAsNobody(t *testing.T, args ...string) *bench.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for two seconds; left out with -short")
	}
	free := fmt.Sprint(netlabtest.FreePort(t))
	cmd := ndperf(t, append(args, "--udp-port", free, "--json", "-")...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Dir = "/"
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("ndperf %v: %v\n%s", args, err, &stderr)
	}
	r, err := bench.ReadReport(&stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	return r
}

// TestLoopAsOrdinaryUser runs the whole test list of `ndperf loop`.
func TestLoopAsOrdinaryUser(t *testing.T) {
	r := runAsNobody(t, "loop", "--duration", "50ms")
	if len(r.Results) != len(bench.Tests()) || len(r.Baselines) != 3 {
		t.Errorf("%d results and %d baselines, want %d and 3", len(r.Results), len(r.Baselines), len(bench.Tests()))
	}
	for _, x := range r.Results {
		if x.Datapath != "udp" {
			t.Errorf("%s ran over %q", x.Test, x.Datapath)
		}
	}
	for _, x := range r.Ratios {
		if x.Bound != nil && !strings.Contains(x.Name, "allocations") {
			t.Errorf("%s is held to a bound of AF_XDP", x.Name)
		}
	}
}

// TestLoopOnOneProcessor measures two processes that poll on one processor. How long an operation takes relative to TCP is logged and has
// no bound, because it depends on other programs on the processor. Other tests count that pollers yield
// (TestPollersOnOneProcessorGiveItUp, TestOneProcessorIsSeen).
func TestLoopOnOneProcessor(t *testing.T) {
	var r *bench.Report
	testhelp.OnOneProcessor(t, func() { r = runAsNobody(t, "loop", "--duration", "200ms", "--tests", "write_lat") })
	if len(r.Results) != 1 || len(r.Baselines) == 0 {
		t.Fatalf("%d results beside %d rivals", len(r.Results), len(r.Baselines))
	}
	tcp := slices.MinFunc(r.Baselines, func(a, b bench.Baseline) int { return cmp.Compare(a.LatUS.P50, b.LatUS.P50) })
	nd := &r.Results[0]
	t.Logf("%s: p50 %.1f µs, processor time %.1f µs; %s: %.1f and %.1f", nd.Test, nd.LatUS.P50, nd.CPUUS, tcp.Kind, tcp.LatUS.P50, tcp.CPUUS)
	if !nd.Verified {
		t.Error("the operations were not verified")
	}
}

// TestConnectionsAsOrdinaryUser opens connections over plain sockets. Their cost has no bound.
func TestConnectionsAsOrdinaryUser(t *testing.T) {
	r := runAsNobody(t, "conn", "--loop", "-n", "300", "--idle", "100ms")
	if len(r.Connections) != 2 || r.Connections[0].Role != bench.Requester || r.Connections[1].Role != bench.Responder {
		t.Fatalf("not one part for each side: %+v", r.Connections)
	}
	for _, x := range r.Connections {
		if x.Connections != 300 || x.Datapath != "udp" {
			t.Errorf("%d connections over %q", x.Connections, x.Datapath)
		}
	}
	for _, x := range r.Ratios {
		if x.Bound != nil {
			t.Errorf("%s is held to a bound of AF_XDP", x.Name)
		}
	}
	runAsNobody(t, "conn", "--loop", "-n", "1", "--idle", "1ms") // the cost of a queue pair must be visible beside the memory of opening an adapter
}

// TestSeveralConnectionsAsOrdinaryUser runs two connections in each direction at once, and one connection in the reverse direction.
func TestSeveralConnectionsAsOrdinaryUser(t *testing.T) {
	r := runAsNobody(t, "loop", "--duration", "20ms", "--both", "--connections", "2", "--tests", "write_bw,write_rate")
	var got []string
	for _, x := range r.Results {
		got = append(got, fmt.Sprintf("%s %s %d", x.Test, x.Direction, x.Connections))
		if !x.Verified {
			t.Errorf("%s %s was not verified", x.Test, x.Direction)
		}
	}
	slices.Sort(got)
	if want := []string{"write_bw back 2", "write_bw forth 2", "write_rate back 2", "write_rate forth 2"}; !slices.Equal(got, want) {
		t.Errorf("results are %q, want %q", got, want)
	}
	if len(r.Baselines)+len(r.Ratios) != 0 {
		t.Errorf("%d rivals, %d ratios", len(r.Baselines), len(r.Ratios))
	}
	r = runAsNobody(t, "loop", "--duration", "20ms", "--reverse", "--tests", "read_bw")
	if len(r.Results) != 1 || len(r.Baselines) != 1 {
		t.Errorf("the other way round there are %d results beside %d rivals", len(r.Results), len(r.Baselines))
	}
}
