package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// listenIn starts a program that listens, and returns when the program reports that it does. The program must end when the test's context
// ends.
func listenIn(t testing.TB, ns *netlab.Namespace, cmd *exec.Cmd) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = ns.StartProcess(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("%v does not listen: %v\n%s", cmd.Args, cmd.Wait(), &said)
	}
	t.Cleanup(func() {
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) { // this is the error of a normal end after the end of the test
			t.Errorf("%v: %v\n%s", cmd.Args, err, &said)
		}
	})
}

// serversIn starts n servers on one address, and returns where they listen.
func serversIn(t testing.TB, ns *netlab.Namespace, addr netip.Addr, n int, flags ...string) (at []string) {
	t.Helper()
	for i := range n {
		at = append(at, netip.AddrPortFrom(addr, uint16(7000+i)).String())
		listenIn(t, ns, ndperf(t, append([]string{"server", "--addr", at[i]}, flags...)...))
	}
	return at
}

// clientsIn runs a client of each server concurrently, and returns the only result of each, which is verified.
func clientsIn(t testing.TB, ns *netlab.Namespace, at []string, flags ...string) []bench.Result {
	t.Helper()
	cmds, out, said := make([]*exec.Cmd, len(at)), make([]bytes.Buffer, len(at)), make([]bytes.Buffer, len(at))
	for i := range at {
		cmds[i] = ndperf(t, append([]string{"client", "--addr", at[i], "--json", "-"}, flags...)...)
		cmds[i].Stdout, cmds[i].Stderr = &out[i], &said[i]
		if err := ns.StartProcess(cmds[i]); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]bench.Result, len(at))
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", cmd.Args, err, &said[i])
			continue
		}
		r, err := bench.ReadReport(&out[i])
		if err != nil || len(r.Results) != 1 {
			t.Fatalf("%v: %+v, %v", cmd.Args, r, err)
		}
		if all[i] = r.Results[0]; !all[i].Verified || all[i].Ops == 0 {
			t.Errorf("%v: %d operations, verified: %t", cmd.Args, all[i].Ops, all[i].Verified)
		}
	}
	return all
}

// Three servers, and an ndping on each side, run as separate processes on one interface. All transferred bytes are verified, and each
// process reports its datapath.
func TestServersBesidePing(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	ping := netlabtest.Build(t, "../ndping")
	at := serversIn(t, pair.B, pair.AddrB.Addr(), 3)
	answers := map[*netlab.Namespace]string{}
	for ns, addr := range map[*netlab.Namespace]netip.Addr{pair.A: pair.AddrA.Addr(), pair.B: pair.AddrB.Addr()} {
		answers[ns] = netip.AddrPortFrom(addr, 7100).String()
		listenIn(t, ns, exec.CommandContext(t.Context(), ping, "-l", answers[ns]))
	}
	var said [2]bytes.Buffer
	var pings [2]*exec.Cmd
	for i, ns := range []*netlab.Namespace{pair.A, pair.B} { // from each side to the peer, while the clients run
		to := answers[pair.B]
		if ns == pair.B {
			to = answers[pair.A]
		}
		pings[i] = exec.CommandContext(t.Context(), ping, to, "-c", "20", "-i", "1ms", "-W", "1m")
		pings[i].Stdout, pings[i].Stderr = &said[i], &said[i]
		if err := ns.StartProcess(pings[i]); err != nil {
			t.Fatal(err)
		}
	}
	clientsIn(t, pair.A, at, "--event", "--tests", "write_bw", "--duration", "50ms")
	for i, cmd := range pings {
		if err := cmd.Wait(); err != nil || !strings.Contains(said[i].String(), "20 sent, 20 answered") ||
			!strings.Contains(said[i].String(), "datapath ring: another adapter of this machine has UDP port") {
			t.Errorf("%v: %v\n%s", cmd.Args, err, &said[i])
		}
	}
}

// many is the number of processes that share an interface.
const many = 8

// Eight processes on each side of a veth pair send at once, and every byte is right. BenchmarkProcessesBesideEachOther measures the
// fairness.
func TestEightProcessesBesideEachOther(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	rungs := map[string]int{}
	for _, x := range clientsIn(t, pair.A, serversIn(t, pair.B, pair.AddrB.Addr(), many), "--event", "--tests", "write_bw", "--duration", "50ms") {
		rungs[x.Datapath]++
	}
	if rungs["ring"] != many-1 {
		t.Errorf("the clients had %v, and one has AF_XDP", rungs)
	}
}

// BenchmarkProcessesBesideEachOther measures how eight processes that write at once share a veth pair. It reports the rate of the slowest
// and of the fastest process. The unit is an equal share of the rate of a single process on plain sockets.
func BenchmarkProcessesBesideEachOther(b *testing.B) {
	cfg := netlab.PairConfig{Offloads: true}
	pair, lonely := netlabtest.Pair(b, cfg), netlabtest.Pair(b, cfg)
	at := serversIn(b, pair.B, pair.AddrB.Addr(), many)
	one := serversIn(b, lonely.B, lonely.AddrB.Addr(), 1, "--datapath", "udp")
	flags := []string{"--event", "--tests", "write_bw", "--duration", "1s"}
	var alone, slowest, fastest, sum float64
	rounds := 0.0
	for b.Loop() {
		rounds++
		all := clientsIn(b, pair.A, at, flags...)
		least, most := all[0].Gbps, all[0].Gbps
		for _, x := range all {
			least, most, sum = min(least, x.Gbps), max(most, x.Gbps), sum+x.Gbps
		}
		share := clientsIn(b, lonely.A, one, append(flags, "--datapath", "udp")...)[0].Gbps
		alone, slowest, fastest = alone+share, slowest+least*many/share, fastest+most*many/share
	}
	b.ReportMetric(alone/rounds, "alone-Gb/s")
	b.ReportMetric(sum/rounds, "sum-Gb/s")
	b.ReportMetric(slowest/rounds, "slowest/share")
	b.ReportMetric(fastest/rounds, "fastest/share")
}

// brokersOf runs a broker at each end of a pair, and returns the flag that makes ndperf use it.
func brokersOf(b *testing.B, pair *netlab.Pair, program, mode string) (at map[*netlab.Namespace][]string) {
	b.Helper()
	at = map[*netlab.Namespace][]string{}
	for ns, name := range map[*netlab.Namespace]string{pair.A: pair.NameA, pair.B: pair.NameB} {
		path := filepath.Join(b.TempDir(), name)
		listenIn(b, ns, exec.CommandContext(b.Context(), program, "--interface", name, "--socket", path, "--allow-uid", strconv.Itoa(os.Getuid()), "--mode", mode))
		at[ns] = []string{"--broker", path}
	}
	return at
}

// BenchmarkClientsOfABroker compares each of two clients of a broker of rings, alternately, with the only client of a broker of AF_XDP.
// It compares the half round trip of a small Write and the bandwidth of long Writes, and 1 means equal.
func BenchmarkClientsOfABroker(b *testing.B) {
	cfg := netlab.PairConfig{Offloads: true}
	program := netlabtest.Build(b, "../ndbroker")
	sole, shared := netlabtest.Pair(b, cfg), netlabtest.Pair(b, cfg)
	alone, both := brokersOf(b, sole, program, "generic"), brokersOf(b, shared, program, "ring")
	servers := map[*netlab.Pair][]string{
		sole:   serversIn(b, sole.B, sole.AddrB.Addr(), 1, alone[sole.B]...),
		shared: serversIn(b, shared.B, shared.AddrB.Addr(), 2, both[shared.B]...),
	}
	measure := func(pair *netlab.Pair, server, test string, flags []string) float64 {
		r := clientsIn(b, pair.A, []string{server}, append(flags, "--poll", "--tests", test, "--duration", "500ms")...)[0]
		if test == "write_lat" {
			return 1 / r.LatUS.P50
		}
		return r.Gbps
	}
	got := map[string]float64{}
	rounds := 0.0
	for b.Loop() {
		rounds++
		for _, test := range []string{"write_lat", "write_bw"} {
			owner := measure(sole, servers[sole][0], test, alone[sole.A])
			for i, server := range servers[shared] {
				got[fmt.Sprintf("%s-client-%d/sole", test, i+1)] += measure(shared, server, test, both[shared.A]) / owner
			}
		}
	}
	for name, sum := range got {
		b.ReportMetric(sum/rounds, name)
	}
}
