package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/ndxdp/ndxdp/bench"
)

// render prints the results in at most 100 columns.
func render(w io.Writer, r *bench.Report) {
	fmt.Fprintf(w, "ndxdp %s · %s · %d cores · Linux %s · %s\n", r.Host.Commit, r.Host.CPU, r.Host.Cores, r.Host.Kernel, r.Host.Go)
	for _, s := range r.RealSummaries() {
		fmt.Fprintf(w, "\nReal programs, MTU %d, ndnet over %s, beside kernel TCP: medians of %d rounds\n", s.MTU, s.Datapath, s.Rounds)
		renderPrograms(w, r, s)
		renderIdle(w, r, s.MTU)
	}
}

// Widths of columns: names, and figures.
const (
	row  = "%-22s %8s %8s %5s %7s %7s %7s %7s %7s %7s %5s\n"
	head = "%-22s %23s %15s %15s %21s\n"
)

func renderPrograms(w io.Writer, r *bench.Report, s bench.RealSummary) {
	if s.Cases == 0 {
		return
	}
	fmt.Fprintf(w, head, "", "operations a second", "p50 µs", "p99 µs", "CPU µs an operation")
	fmt.Fprintf(w, row, "", "tcp", "nd", "ratio", "tcp", "nd", "tcp", "nd", "tcp", "nd", "ratio")
	for _, x := range r.Real {
		if x.MTU != s.MTU || x.Idle > 0 {
			continue
		}
		t, n := x.TCP, x.ND
		fmt.Fprintf(w, row, x.Case, figure(t.PerSecond()), figure(n.PerSecond()), ratio(x.Rate), figure(t.P50US), figure(n.P50US),
			figure(t.P99US), figure(n.P99US), figure(t.CPUUS()), figure(n.CPUUS()), ratio(x.CPU))
	}
	fmt.Fprintf(w, "geometric mean of %d cases, ndnet / TCP: rate %.2f, processor time of both sides %.2f\n", s.Cases, s.Rate, s.CPU)
	fmt.Fprintf(w, "worst case: %s, %.2f of TCP's rate\n", s.Worst, s.WorstRate)
}

func renderIdle(w io.Writer, r *bench.Report, mtu int) {
	for _, x := range r.Real {
		if x.MTU != mtu || x.Idle == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%d idle connections         tcp       nd  ratio\n", x.Idle)
		line := func(name, tcp, nd, ratio string) { fmt.Fprintf(w, "%-26s %8s %8s %6s\n", name, tcp, nd, ratio) }
		line("opened a second", figure(x.TCP.Opened), figure(x.ND.Opened), ratio(x.Rate))
		line("client, % of a core", percent(x.TCP.ClientShare()), percent(x.ND.ClientShare()), "")
		line("server, % of a core", percent(x.TCP.ServerShare()), percent(x.ND.ServerShare()), "")
		line("client, bytes of each", figure(x.TCP.ClientBytes), figure(x.ND.ClientBytes), "")
		line("server, bytes of each", figure(x.TCP.ServerBytes), figure(x.ND.ServerBytes), "")
		fmt.Fprintln(w, "bytes: heap and stacks of the process, that of the program included, without the kernel's memory")
	}
}

// figure formats three digits, and all digits before the decimal point.
func figure(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
