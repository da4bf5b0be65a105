package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// registerFlags are the values of the flags of register.
type registerFlags struct {
	runFlags
	addr    netip.Addr
	udpPort uint16
}

func newRegister() *cobra.Command {
	f := &registerFlags{addr: loopAddrs[0]}
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Measure the registration of memory (no privileges)",
		Long: `register opens an adapter, and registers memory and closes the region repeatedly. It prints the time of each call and
the pairs of calls in a second. Test register uses memory of the program, and test allocate uses memory of the adapter,
which is sent without a copy. It needs no peer, and on the loopback interface no privilege.`,
		Example: `  ndperf register                                      4 KiB to 16 MiB, about four seconds
  ndperf register --sizes 4K-64M                       doubling
  sudo ndperf register --addr 192.0.2.7                at the adapter of a NIC, over AF_XDP`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRegister(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.Var(cli.Addr(&f.addr), "addr", "local address of the adapter")
	fl.StringSliceVar(&f.sizes, "sizes", nil, "sizes of memory such as 64,4K or 4K-64M, which doubles (default 4K,64K,1M,16M)")
	fl.DurationVar(&f.duration, "duration", bench.DefaultDuration/4, "measured time of each size, each way")
	registerJSON(cmd, &f.json)
	registerUDPPort(cmd, &f.udpPort)
	f.registerDatapath(cmd)
	return cmd
}

func runRegister(ctx context.Context, f *registerFlags, stdout, stderr io.Writer) error {
	sizes, err := cli.Sizes("sizes", f.sizes, 1, bench.MaxRegistrationSize, "1 to "+bench.FormatSize(bench.MaxRegistrationSize))
	if err != nil {
		return err
	}
	if len(sizes) == 0 {
		sizes = bench.RegistrationSizes()
	}
	if f.duration < time.Millisecond {
		return cli.Usagef("--duration %v is too short: choose at least 1ms", f.duration)
	}
	if err := f.checkDatapath(); err != nil {
		return err
	}
	cfg := bench.NDConfig{Local: netip.AddrPortFrom(f.addr, 0), UDPPort: f.udpPort, Datapath: f.datapath, Bulk: f.bulk}
	report := newReport()
	out := output{json: f.json, stdout: stdout, stderr: stderr, render: renderReport}
	steps := []step{{lines: 2 * len(sizes)}} // one line for each kind of memory
	return runSteps(ctx, out, report, steps, func(_ step, p *progress) error {
		return bench.Registrations(ctx, cfg, sizes, f.duration, func(x bench.Registration) {
			report.Registrations = append(report.Registrations, x)
			p.stage(registrationLine(x))
		})
	})
}

func registrationLine(x bench.Registration) string {
	return fmt.Sprintf("%s %s: p50 %s µs, %s a second", x.What, bench.FormatSize(x.Size), micros(x.RegisterUS.P50), number(x.PerSecond))
}

func renderRegistrations(w io.Writer, r *bench.Report) {
	t := newTable(w, "Registration of memory, times in µs", 1, "what", "size", "p50", "p99", "max", "close p50", "p99", "a second")
	for _, x := range r.Registrations {
		t.AppendRow(table.Row{
			x.What, bench.FormatSize(x.Size), micros(x.RegisterUS.P50), number(x.RegisterUS.P99), number(x.RegisterUS.Max),
			micros(x.CloseUS.P50), number(x.CloseUS.P99), number(x.PerSecond),
		})
	}
	t.Render()
	fmt.Fprintf(w, "over %s; a second: pairs of both, one after the other\n", r.Registrations[0].Datapath)
}
