package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// listenIn starts a program that listens, and returns when it says so. It is told to end, and must, with the test's context.
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
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) { // which is what a good end after the end of the test is
			t.Errorf("%v: %v\n%s", cmd.Args, err, &said)
		}
	})
}

// serversIn starts n servers beside each other, and returns where they listen.
func serversIn(t testing.TB, ns *netlab.Namespace, addr netip.Addr, n int, flags ...string) (at []string) {
	t.Helper()
	for i := range n {
		at = append(at, netip.AddrPortFrom(addr, uint16(7000+i)).String())
		listenIn(t, ns, ndperf(t, append([]string{"server", "--addr", at[i]}, flags...)...))
	}
	return at
}

// clientsIn runs a client of each server, all at once, and returns the only result of each, which is verified.
func clientsIn(t testing.TB, ns *netlab.Namespace, at []string, flags ...string) []bench.Result {
	t.Helper()
	cmds, out, said := make([]*exec.Cmd, len(at)), make([]bytes.Buffer, len(at)), make([]bytes.Buffer, len(at))
	for i := range at {
		cmds[i] = ndperf(t, append([]string{"client", "--addr", at[i], "--event", "--json", "-"}, flags...)...)
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

// Three servers, and ndping on either side, are processes of their own on one interface: all that they move is verified, and each says what it got.
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
	for i, ns := range []*netlab.Namespace{pair.A, pair.B} { // from each side to the other one, while the clients run
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
	clientsIn(t, pair.A, at, "--tests", "write_bw", "--duration", "50ms")
	for i, cmd := range pings {
		if err := cmd.Wait(); err != nil || !strings.Contains(said[i].String(), "20 sent, 20 answered") ||
			!strings.Contains(said[i].String(), "datapath ring: another adapter of this machine has UDP port") {
			t.Errorf("%v: %v\n%s", cmd.Args, err, &said[i])
		}
	}
}

// many is how many processes share an interface.
const many = 8

// Eight processes on either side of a veth pair, with traffic at once: every byte is right. How fair they are is BenchmarkProcessesBesideEachOther's to say.
func TestEightProcessesBesideEachOther(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	rungs := map[string]int{}
	for _, x := range clientsIn(t, pair.A, serversIn(t, pair.B, pair.AddrB.Addr(), many), "--tests", "write_bw", "--duration", "50ms") {
		rungs[x.Datapath]++
	}
	if rungs["ring"] != many-1 {
		t.Errorf("the clients had %v, and one has AF_XDP", rungs)
	}
}

// BenchmarkProcessesBesideEachOther tells how eight processes that write at once share a veth pair: what the slowest and the fastest of them got, in parts of an
// equal share of what one process on plain sockets gets when it is alone.
func BenchmarkProcessesBesideEachOther(b *testing.B) {
	cfg := netlab.PairConfig{Offloads: true}
	pair, lonely := netlabtest.Pair(b, cfg), netlabtest.Pair(b, cfg)
	at := serversIn(b, pair.B, pair.AddrB.Addr(), many)
	one := serversIn(b, lonely.B, lonely.AddrB.Addr(), 1, "--datapath", "udp")
	flags := []string{"--tests", "write_bw", "--duration", "1s"}
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
