package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
)

func newBars() *cobra.Command {
	return &cobra.Command{
		Use:   "bars FILE...",
		Short: "Compare the medians of repeated runs with their bounds",
		Long: `bars reads the JSON reports of repeated runs of "ndperf veth" or "ndperf conn", and prints for each bounded figure its
median, its spread, and by how much the median meets or misses the bound. "make bars" makes such runs and judges them.
It exits with status 1 when a median misses its bound.`,
		Example: `  for i in 1 2 3; do ndperf veth --json $i.json; done
  ndperf bars 1.json 2.json 3.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var runs []*bench.Report
			for _, name := range args {
				r, err := readReport(name)
				if err == nil {
					err = errIncomplete(r)
				}
				if err != nil {
					return fmt.Errorf("bars: %s cannot be used: %w", name, err)
				}
				runs = append(runs, r)
			}
			bars := bench.Bars(runs)
			renderBars(cmd.OutOrStdout(), bars)
			if err := bench.MissedBars(bars); err != nil {
				return fmt.Errorf("medians miss their bounds: %w", err)
			}
			return nil
		},
	}
}

// widestBar is the width at which the name of a figure wraps, so that tables fit into a terminal.
const widestBar = 28

// mostMargin is the largest printed margin, in percent.
const mostMargin = 9999

// renderBars prints how medians compare with their bounds, and the spread of the runs.
func renderBars(w io.Writer, bars []bench.Bar) {
	figure := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	verdicts := newTable(w, "Medians and bounds", 1, "what", "size", "MTU", "median", "bound", "")
	for i := range bars {
		b := &bars[i]
		verdict := "met by"
		if !b.Met() {
			verdict = "MISSED by"
		}
		verdicts.AppendRow(table.Row{
			text.WrapSoft(b.Name, widestBar), ratioSize(bench.Ratio{Size: b.Size}), mtu(b.MTU), figure(b.Median()), b.Want + " " + figure(b.Bound),
			fmt.Sprintf("%s %.0f %%", verdict, min(100*max(b.Margin(), -b.Margin()), mostMargin)),
		})
	}
	verdicts.Render()
	figure = func(v float64) string { return strconv.FormatFloat(v, 'g', 2, 64) }
	spread := newTable(w, "Runs", 1, "what", "MTU", "n", "least", "1/4", "3/4", "most")
	for i := range bars {
		b := &bars[i]
		spread.AppendRow(table.Row{
			text.WrapSoft(b.Name, widestBar), mtu(b.MTU), len(b.Values), figure(b.Values[0]), figure(b.Quantile(0.25)),
			figure(b.Quantile(0.75)), figure(b.Values[len(b.Values)-1]),
		})
	}
	spread.Render()
}
