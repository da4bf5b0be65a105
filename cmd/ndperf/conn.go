package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab"
)

// connSteps is the number of steps of the progress bar: four stages and two results.
const connSteps = 6

// connFlags are the values of the flags of conn.
type connFlags struct {
	n    int
	idle time.Duration
	placeFlags
}

func newConn() *cobra.Command {
	f := &connFlags{}
	cmd := &cobra.Command{
		Use:   "conn",
		Short: "Open, idle and close many connections (root, or --loop)",
		Long: `conn opens many connections from one process to a listener in another, in two network namespaces joined by a
veth pair. It prints how many it opened a second and how long one took, the memory that an idle connection
costs on either side, beside the queues that the application asked for, the CPU time that all of them cost
while idle, and how long closing took. With --loop both processes use plain UDP sockets on the loopback interface, which needs
no privilege; each connection then has a socket.`,
		Example: `  ndperf conn                                          10,000 connections, about a quarter of a minute
  ndperf conn -n 1000 --idle 1s                        a quick look
  ndperf conn -n 1000 --loop                           without root
  ndperf conn --json -                                 as JSON on standard output`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConns(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.n, "connections", "n", bench.DefaultConns, fmt.Sprintf("number of connections, at most %d", bench.MaxConns))
	fl.DurationVar(&f.idle, "idle", bench.DefaultIdle, "time for which all connections idle while CPU time is counted")
	f.register(cmd)
	return cmd
}

func runConns(ctx context.Context, f *connFlags, stdout, stderr io.Writer) (err error) {
	switch {
	case f.n < 1 || f.n > bench.MaxConns:
		return cli.Usagef("-n %d is out of range: 1 to %d, the ephemeral ports of an address", f.n, bench.MaxConns)
	case f.idle <= 0:
		return cli.Usagef("--idle %v is not a positive duration", f.idle)
	}
	if err := f.needsRoot("conn"); err != nil {
		return err
	}
	if err := checkDatapath(f.datapath); err != nil {
		return err
	}
	out, err := openJSON(f.json, stdout)
	if err != nil {
		return err
	}
	defer out.abandon()
	if out.toStdout() {
		stdout = stderr // so that standard output has only JSON
	}
	report := newReport()
	p := newProgress(stderr, connSteps)
	own, err := identity(f.tls)
	if err != nil {
		return err
	}
	job := bench.Job{
		TLS:  own,
		Kind: bench.KindConn, Datapath: f.datapath, UDPPort: f.udpPort, Conn: &bench.ConnSpec{N: f.n, Idle: f.idle},
	}
	sink := &reportSink{kind: job.Kind, report: report, progress: p}
	if f.loop {
		job.Datapath = "udp"
		job.Local.Addr, job.Peer.Addr = netip.AddrPortFrom(loopAddrs[0], ndPort), netip.AddrPortFrom(loopAddrs[1], ndPort)
		err = runSides(ctx, (*exec.Cmd).Start, (*exec.Cmd).Start, job, sink)
	} else {
		err = connsOverVeth(ctx, job, sink)
	}
	if err != nil {
		p.abandon()
		return err
	}
	p.finish()
	slices.SortFunc(report.Connections, func(a, b bench.ConnSide) int { return strings.Compare(string(a.Role), string(b.Role)) })
	report.SetRatios()
	renderReport(stdout, report)
	return out.write(report)
}

// connsMTU is the MTU of Ethernet.
const connsMTU = 1500

func connsOverVeth(ctx context.Context, job bench.Job, sink bench.Sink) (err error) {
	pair, err := netlab.NewPair(netlab.PairConfig{MTU: connsMTU, Queues: 1, StaticNeighbours: true})
	if err != nil {
		return fmt.Errorf("build a veth pair: %w", err)
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	job.Local.Addr = netip.AddrPortFrom(pair.AddrA.Addr(), ndPort)
	job.Peer.Addr = netip.AddrPortFrom(pair.AddrB.Addr(), ndPort)
	return runSides(ctx, pair.A.StartProcess, pair.B.StartProcess, job, sink)
}

// renderConnections prints the results of each side, in at most 80 columns.
func renderConnections(w io.Writer, r *bench.Report) {
	t := newTable(w, "Connections", 1, "side", "n", "a second", "p50 µs", "p99 µs", "queue B", "other B", "CPU %", "close s")
	for _, x := range r.Connections {
		p50, p99 := "", ""
		if x.ConnectUS != nil {
			p50, p99 = number(x.ConnectUS.P50), number(x.ConnectUS.P99)
		}
		t.AppendRow(table.Row{
			x.Role, x.Connections, number(x.PerSecond), p50, p99, number(x.QueueBytes), number(x.OtherBytes),
			micros(x.IdleCPU), number(x.CloseSeconds),
		})
	}
	t.Render()
	fmt.Fprintf(w, "over %s; queue B, other B: memory of an idle connection, for the\n", r.Connections[0].Datapath)
	fmt.Fprintln(w, "application's queue pair and for all else; CPU %: of a core, all of them idle")
}

// connectionsLine returns the plain form of a finished run, for logs.
func connectionsLine(x bench.ConnSide) string {
	return fmt.Sprintf("%s: %d connections, %s a second, %s + %s bytes each, idle CPU %.2f %%, closed in %s s",
		x.Role, x.Connections, number(x.PerSecond), number(x.QueueBytes), number(x.OtherBytes), x.IdleCPU, number(x.CloseSeconds))
}
