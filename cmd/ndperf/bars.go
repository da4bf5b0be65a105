package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
)

func newBars() *cobra.Command {
	return &cobra.Command{
		Use:   "bars FILE...",
		Short: "Hold the medians of repeated runs against their bounds",
		Long: `bars reads the JSON reports of repeated runs of "ndperf veth" or "ndperf conn", and prints for each bounded figure its
median, its spread, and by how much the median meets or misses the bound. "make bars" makes such runs and judges them.
It exits with status 1 when a median misses its bound.`,
		Example: `  ndperf veth --json 1.json; ndperf veth --json 2.json; ndperf veth --json 3.json
  ndperf bars 1.json 2.json 3.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var runs []*bench.Report
			for _, name := range args {
				r, err := readReport(name)
				if err != nil {
					return fmt.Errorf("bars: %s cannot be used: %w", name, err)
				}
				runs = append(runs, r)
			}
			bars := bench.Bars(runs)
			renderBars(cmd.OutOrStdout(), bars)
			if err := bench.MissedBars(bars); err != nil {
				return fmt.Errorf("missed by the median: %w", err)
			}
			return nil
		},
	}
}

func renderBars(w io.Writer, bars []bench.Bar) {
	t := newTable(w, "Medians and bounds", 1, "what", "size", "MTU", "runs", "least", "quarter", "median", "three quarters", "most", "bound", "", "floor")
	figure := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	for i := range bars {
		b := &bars[i]
		verdict := "met by"
		if !b.Met() {
			verdict = "MISSED by"
		}
		t.AppendRow(table.Row{
			b.Name, ratioSize(bench.Ratio{Size: b.Size}), mtu(b.MTU), len(b.Values), figure(b.Values[0]), figure(b.Quantile(0.25)),
			figure(b.Median()), figure(b.Quantile(0.75)), figure(b.Values[len(b.Values)-1]), b.Want + " " + figure(b.Bound),
			fmt.Sprintf("%s %.0f %%", verdict, 100*max(b.Margin(), -b.Margin())), figure(b.Floor),
		})
	}
	t.Render()
}
