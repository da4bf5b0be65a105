package main

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ndxdp/ndxdp/bench"
)

// renderApps prints the results of programs, in at most 80 columns.
func renderApps(w io.Writer, r *bench.Report) {
	datapath := "none"
	t := newTable(w, "Programs", 3, "program", "by", "MTU", "p50 µs", "p99 µs", "a second", "CPU µs", "CPU %")
	for i := range r.Apps {
		x := &r.Apps[i]
		by := x.Over
		if x.Encrypted {
			by += ", TLS"
		}
		if x.Pinned {
			by += ", pinned"
		}
		p50, p99, rate, cpu := "", "", "", ""
		if x.P50US > 0 {
			p50, p99 = number(x.P50US), number(x.P99US)
		}
		if x.Ops > 0 {
			rate, cpu = number(x.PerSecond), number(x.CPUUS)
		}
		if x.Test == bench.AppStream {
			rate = number(x.Gbps) + " Gb"
		}
		shares := fmt.Sprintf("%.0f+%.0f", x.RequesterCPU, x.ResponderCPU)
		if x.Test == bench.AppIdle {
			shares = fmt.Sprintf("%.1f+%.1f", x.RequesterCPU, x.ResponderCPU)
		}
		if x.Datapath != "" {
			datapath = x.Datapath
		}
		t.AppendRow(table.Row{
			x.Spec().Program(), by, mtu(x.MTU), p50, p99, rate, cpu, shares,
		})
	}
	t.Render()
	fmt.Fprintf(w, "nd over %s; whole operations, medians of the rounds; CPU µs: of both\n", datapath)
	fmt.Fprintf(w, "processes for an operation (of a stream %s); CPU %%: of a core, of\n", bench.FormatSize(bench.AppChunk))
	fmt.Fprintln(w, "requester and responder")
	if r.Beside > 0 {
		fmt.Fprintf(w, "%d processes kept cores busy meanwhile\n", r.Beside)
	}
}

// appLine returns the plain form of a round, for logs.
func appLine(x bench.AppResult, r bench.AppRound) string {
	name := fmt.Sprintf("%s %s", x.By(), x.Spec())
	if x.Test == bench.AppIdle {
		return fmt.Sprintf("%s: %.2f + %.2f %% of a core", name, r.RequesterCPU, r.ResponderCPU)
	}
	if x.Test == bench.AppStream {
		return fmt.Sprintf("%s: %s Gb/s, CPU %s µs", name, number(r.Gbps), number(r.CPUUS))
	}
	return fmt.Sprintf("%s: p50 %s µs, %s a second, CPU %s µs", name, number(r.P50US), number(r.PerSecond), number(r.CPUUS))
}
