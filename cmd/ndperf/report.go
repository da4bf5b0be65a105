package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench/page"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// reportFile is the default file of the page.
const reportFile = "ndperf-report.html"

func newReportCommand() *cobra.Command {
	output, svg := reportFile, ""
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Make one HTML page with tables and plots from JSON reports",
		Long: `report reads JSON files that ndperf wrote and makes one HTML page: the headline beside kernel TCP, plots of latency
and bandwidth, and, folded, ratios with their bounds, limits, and all figures. Several files are set side by side, with the ratio of the last to the
first. The file name - means standard input. The page needs neither a network nor scripts.`,
		Example: `  ndperf sweep && ndperf report ndperf-sweep.json
  ndperf veth --json - | ndperf report -
  ndperf report --output change.html before.json after.json
  ndperf report --svg docs/img ndperf-sweep.json       the plots as files, too`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writePage(args, output, svg, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&output, "output", reportFile, "the page")
	cmd.Flags().StringVar(&svg, "svg", "", "write each plot to this directory as well")
	return cmd
}

// again is the advice for a file that cannot be read. It does not name the given file, which may be another program's and would be
// overwritten.
const again = "ndperf sweep --json FILE"

func writePage(files []string, output, svg string, stdout io.Writer) error {
	var sources []page.Source
	at, _ := os.Stat(output) // an error means that there is no page yet
	for _, name := range files {
		info, err := os.Stat(name)
		switch {
		case err != nil: // reading it reports the reason
		case os.SameFile(info, at):
			return cli.Usagef("--output: %s is one of the reports, and would be lost: name another file", output)
		case info.Size() == 0:
			return fmt.Errorf("report: %s is empty: measure again (%s)", name, again)
		}
		r, err := readReport(name)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("report: %s does not exist: make it with %s", name, again)
		}
		if err != nil {
			return fmt.Errorf("report: %s cannot be used: measure again (%s): %w", name, again, err)
		}
		sources = append(sources, page.Source{Name: filepath.Base(name), Report: r})
	}
	var html bytes.Buffer
	if err := page.Render(&html, sources); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(output, html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: --output: %w", err)
	}
	fmt.Fprintln(stdout, output)
	if svg == "" {
		return nil
	}
	return writeSVGs(sources, svg, stdout)
}

func writeSVGs(sources []page.Source, dir string, stdout io.Writer) error {
	figures, err := page.Figures(sources)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: --svg: %w", err)
	}
	for _, f := range figures {
		name := filepath.Join(dir, f.Name+".svg")
		if err := os.WriteFile(name, f.SVG, 0o644); err != nil {
			return fmt.Errorf("report: --svg: %w", err)
		}
		fmt.Fprintln(stdout, name)
	}
	return nil
}
