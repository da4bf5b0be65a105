package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ndxdp/ndxdp/bench"
)

// fits reports the lines of tables that are wider than a terminal.
func fits(t *testing.T, render func(*bytes.Buffer)) {
	t.Helper()
	var out bytes.Buffer
	render(&out)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestTablesFitATerminal prints the widest plausible figures.
func TestTablesFitATerminal(t *testing.T) {
	r := bench.NewReport()
	r.Beside = 2
	for _, test := range bench.AppTests() {
		x := bench.AppResult{Test: test, Connections: 1000, Size: 64, MTU: 65000, Over: bench.OverTCP, Pinned: true}
		cpu := 200.0
		if test == bench.AppIdle {
			cpu = 99.9
		}
		r.AddApp(x, bench.AppRound{
			Ops: 1, PerSecond: 1234567, Gbps: 123, P50US: 99999, P99US: 999999, CPUUS: 99999, RequesterCPU: cpu, ResponderCPU: cpu,
		})
	}
	for _, test := range bench.Tests() {
		x := bench.Result{
			Test: test, Size: 512 << 10, MTU: 65000, Mode: bench.ModeEvent, Datapath: "generic", Ops: 1e6, Unpinned: true, Gbps: 123, Mops: 12.3, CPUUS: 99.9, Retransmits: 99999, Verified: true, RequesterCPU: 100, ResponderCPU: 100,
		}
		b := bench.Baseline{Kind: bench.KindTCPBlock, Variant: "unpinned", Test: test, Size: x.Size, MTU: x.MTU, Gbps: 123, Mops: 12.3, CPUUS: 99.9}
		raw := bench.Baseline{Kind: bench.KindRaw, Variant: "generic, batches of 256 KiB, by reference", Test: test, Size: x.Size, MTU: x.MTU, Gbps: 123, Mops: 12.3}
		if test.IsLatency() {
			x.LatUS, x.LatIs = &bench.Latency{P50: 123.45, P99: 1234.56, P999: 12345.67, Max: 1e6}, bench.HalfRoundTrip
			x.Size, b.Size, b.LatUS = 64, 64, x.LatUS
			raw.Size, raw.LatUS, raw.Variant = 64, x.LatUS, "generic"
		}
		r.Results, r.Baselines = append(r.Results, x), append(r.Baselines, b, raw)
	}
	l := &bench.Latency{P50: 12345.67, P99: 123456, Max: 1e6}
	many := bench.NewReport()
	for _, role := range []bench.Role{bench.Requester, bench.Responder} {
		many.Connections = append(many.Connections, bench.ConnSide{
			Role: role, Connections: bench.MaxConns, Datapath: "generic", PerSecond: 12345, ConnectUS: l, QueueBytes: 12345, OtherBytes: 12345, IdleCPU: 100, CloseSeconds: 12.3,
		})
	}
	many.SetRatios()
	r.Registrations = []bench.Registration{{What: bench.AllocateMemory, Size: 256 << 20, Datapath: "generic", PerSecond: 1e6, RegisterUS: l, CloseUS: l}}
	r.SetRatios()
	for name, render := range map[string]func(*bytes.Buffer){
		"programs":   func(w *bytes.Buffer) { renderApps(w, r) },
		"latency":    func(w *bytes.Buffer) { renderLatency(w, r) },
		"bandwidth":  func(w *bytes.Buffer) { renderBandwidth(w, r) },
		"processors": func(w *bytes.Buffer) { renderProcessors(w, r) },
		"intervals": func(w *bytes.Buffer) {
			x := bench.Interval{Test: bench.WriteRate, Size: 512 << 10, Direction: bench.DirectionForth, Connections: 64, Start: 3599, Seconds: 1, Gbps: 123, Mops: 12.3, CPU: 200, Resent: 99999}
			fmt.Fprintln(w, intervalLine(x))
		},
		"connections":   func(w *bytes.Buffer) { renderConnections(w, many); renderRatios(w, many) },
		"registrations": func(w *bytes.Buffer) { renderRegistrations(w, r) },
		"bars": func(w *bytes.Buffer) {
			bars := bench.Bars([]*bench.Report{r, r, r})
			bars[0].MTU, bars[0].Values, bars[0].Floor = 65000, []float64{12345, 12345, 12345}, 1e6
			renderBars(w, bars)
		},
		"ratios": func(w *bytes.Buffer) { renderRatios(w, r) },
		"bounds": func(w *bytes.Buffer) { saysBounds(w, r) },
		"report": func(w *bytes.Buffer) { renderReport(w, r) },
	} {
		t.Run(name, func(t *testing.T) { fits(t, render) })
	}
}
