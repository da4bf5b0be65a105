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

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab"
)

// Defaults of apps, with which all programs take about three minutes.
const (
	appsDuration = 500 * time.Millisecond
	appsRounds   = 3
	maxRounds    = 100
)

// appsFlags are the values of the flags of apps.
type appsFlags struct {
	tests    []string
	mtus     []int
	duration time.Duration
	idle     time.Duration
	rounds   int
	beside   int
	own      *bench.Identity // nil without --tls
	placeFlags
}

func newApps() *cobra.Command {
	f := &appsFlags{}
	cmd := &cobra.Command{
		Use:   "apps",
		Short: "Measure Go programs over ND and over TCP (root, or --loop)",
		Long: `apps runs ordinary programs of package net over ND and over kernel TCP, in two network namespaces joined by one
veth pair, with the kernel's offloads as they are: echo with 1, 16 and 128 connections, net/http with 1 and 16,
unary calls of gRPC, one stream, opening of connections, and 1000 idle connections. Each program runs pinned, with one core for each
process, and on all cores. It prints times, rates and the processor time of both processes for an operation, and their
ratios to the better TCP variant. Each round runs all programs once, and figures are medians of the rounds.

With --tls, nd is encrypted, and TCP is crypto/tls over TCP. Streams also run as crypto/tls over plain nd (nd_tls). net/http
runs with answers of 64 B and of 64 KiB, and with 1, 16 and 128 connections. All programs run at the first MTU, streams at all of them. With --loop both processes use plain UDP sockets on the loopback
interface, which needs no privilege.`,
		Example: `  ndperf apps                                          everything, about three minutes
  ndperf apps --tests echo,http --mtu 1500             a part
  ndperf apps --tls --tests echo,http,open             encrypted, beside crypto/tls over TCP
  ndperf apps --beside 2                               while two processes keep cores busy
  ndperf apps --loop --rounds 1 --idle 1s              a quick look without root`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runApps(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.tests, "tests", nil, "programs to run (default all): "+appNames())
	fl.IntSliceVar(&f.mtus, "mtu", defaultMTUs, "link MTUs to measure at")
	fl.DurationVar(&f.duration, "duration", appsDuration, "measured time of each program in each round")
	fl.DurationVar(&f.idle, "idle", bench.DefaultIdle, "time in each round for which connections idle while CPU time is counted")
	fl.IntVar(&f.rounds, "rounds", appsRounds, fmt.Sprintf("number of rounds, each with all programs, at most %d", maxRounds))
	registerBeside(cmd, &f.beside)
	f.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("loop", "mtu")
	return cmd
}

func appNames() string {
	var names []string
	for _, t := range bench.AppTests() {
		names = append(names, string(t))
	}
	return strings.Join(names, ",")
}

// check checks the flags, and returns the tests in the order in which they run.
func (f *appsFlags) check() ([]bench.AppTest, error) {
	tests := bench.AppTests()
	for _, name := range f.tests {
		if !slices.Contains(tests, bench.AppTest(name)) {
			return nil, cli.Usagef("--tests: %q is unknown: choose from %s", name, appNames())
		}
	}
	if len(f.tests) > 0 {
		tests = slices.DeleteFunc(tests, func(t bench.AppTest) bool { return !slices.Contains(f.tests, string(t)) })
	}
	if err := checkDatapath(f.datapath); err != nil {
		return nil, err
	}
	if err := checkMTUs(f.mtus); err != nil {
		return nil, err
	}
	switch {
	case f.duration < time.Millisecond || f.duration > time.Hour:
		return nil, cli.Usagef("--duration %v is out of range: 1ms to 1h", f.duration)
	case f.idle < time.Millisecond || f.idle > time.Hour:
		return nil, cli.Usagef("--idle %v is out of range: 1ms to 1h", f.idle)
	case f.rounds < 1 || f.rounds > maxRounds:
		return nil, cli.Usagef("--rounds %d is out of range: 1 to %d", f.rounds, maxRounds)
	}
	if err := checkBeside(f.beside); err != nil {
		return nil, err
	}
	return tests, f.needsRoot("apps")
}

// jobs returns the jobs of one round at one MTU. Programs run twice over each transport: free to use every core, and pinned. Idle
// connections run once, over ND only, because they have no rival. Encrypted streams also run as crypto/tls over ND.
func (f *appsFlags) jobs(tests []bench.AppTest, first bool, mtu int) (jobs []bench.Job) {
	specs := bench.AppSpecs(tests, mtu, f.duration, f.idle, f.own != nil)
	if !first {
		specs = slices.DeleteFunc(specs, func(s bench.AppSpec) bool { return s.Test != bench.AppStream })
	}
	idle := func(s bench.AppSpec) bool { return s.Test == bench.AppIdle }
	add := func(over string, unpinned bool, specs []bench.AppSpec) {
		if len(specs) > 0 {
			jobs = append(jobs, bench.Job{
				Kind: bench.KindApps, TLS: f.own, Datapath: f.datapath, UDPPort: f.udpPort, Unpinned: unpinned,
				Apps: &bench.AppPlan{Over: over, Specs: specs},
			})
		}
	}
	rivals := slices.DeleteFunc(slices.Clone(specs), idle)
	var streams []bench.AppSpec
	if f.own != nil {
		streams = slices.DeleteFunc(slices.Clone(specs), func(s bench.AppSpec) bool { return s.Test != bench.AppStream })
	}
	add(bench.OverND, true, specs)
	add(bench.OverTCP, true, rivals)
	add(bench.OverNDTLS, true, streams)
	add(bench.OverND, false, rivals)
	add(bench.OverTCP, false, rivals)
	add(bench.OverNDTLS, false, streams)
	return jobs
}

func runApps(ctx context.Context, f *appsFlags, stdout, stderr io.Writer) error {
	tests, err := f.check()
	if err != nil {
		return err
	}
	if f.loop {
		mtu, err := loopbackMTU()
		if err != nil {
			return err
		}
		f.datapath, f.mtus = "udp", []int{mtu}
	}
	if f.own, err = identity(f.tls); err != nil {
		return err
	}
	out, err := openJSON(f.json, stdout)
	if err != nil {
		return err
	}
	defer out.abandon()
	if out.toStdout() {
		stdout = stderr
	}
	stop, err := startBusy(f.beside)
	if err != nil {
		return err
	}
	defer stop()
	r := &appsRun{flags: f, report: newReport()}
	r.report.Beside = f.beside
	return r.finish(r.all(ctx, tests, stderr), out, stdout)
}

// appsRun is one run of the apps command.
type appsRun struct {
	flags    *appsFlags
	report   *bench.Report
	progress *progress
}

// finish prints and writes the report. failed is the error of an incomplete run, or nil.
func (r *appsRun) finish(failed error, out *jsonFile, stdout io.Writer) error {
	if failed != nil {
		if len(r.report.Apps) == 0 {
			return failed
		}
		r.report.Incomplete = true
		fmt.Fprintf(stdout, "not all was measured: %s\n", cli.OneLine(failed))
	}
	r.report.SortApps()
	r.report.SetRatios()
	renderReport(stdout, r.report)
	if err := out.write(r.report); err != nil {
		return err
	}
	return failed
}

// all runs all rounds, at each MTU.
func (r *appsRun) all(ctx context.Context, tests []bench.AppTest, stderr io.Writer) error {
	f := r.flags
	total := 0
	for i, mtu := range f.mtus {
		for _, j := range f.jobs(tests, i == 0, mtu) {
			total += f.rounds * len(j.Apps.Specs)
		}
	}
	r.progress = newProgress(stderr, total)
	for i, mtu := range f.mtus {
		jobs := f.jobs(tests, i == 0, mtu)
		if len(jobs) == 0 {
			continue
		}
		do := r.overVeth
		if f.loop {
			do = r.overLoop
		}
		if err := do(ctx, mtu, jobs); err != nil {
			r.progress.abandon()
			return err
		}
	}
	r.progress.finish()
	return nil
}

// overVeth runs all rounds over one pair. TCP uses the same pair as ND, with all kernel offloads.
func (r *appsRun) overVeth(ctx context.Context, mtu int, jobs []bench.Job) (err error) {
	pair, err := netlab.NewPair(netlab.PairConfig{MTU: mtu, Queues: 1, Offloads: true, StaticNeighbours: true})
	if err != nil {
		return fmt.Errorf("build a veth pair with MTU %d: %w", mtu, err)
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	r.report.Pairs = append(r.report.Pairs, bench.Pair{For: "programs", MTU: mtu, Offloads: true, Queues: 1})
	return r.rounds(ctx, jobs, func(job bench.Job, sink bench.Sink) error {
		job.Local.Addr = netip.AddrPortFrom(pair.AddrA.Addr(), ndPort)
		job.Peer.Addr = netip.AddrPortFrom(pair.AddrB.Addr(), ndPort)
		return runSides(ctx, pair.A.StartProcess, pair.B.StartProcess, job, sink)
	})
}

func (r *appsRun) overLoop(ctx context.Context, _ int, jobs []bench.Job) error {
	return r.rounds(ctx, jobs, func(job bench.Job, sink bench.Sink) error {
		port := uint16(ndPort)
		if job.Apps.Over == bench.OverTCP {
			var err error
			if port, err = freeTCPPort(loopAddrs[1]); err != nil {
				return err
			}
		}
		job.Local.Addr, job.Peer.Addr = netip.AddrPortFrom(loopAddrs[0], port), netip.AddrPortFrom(loopAddrs[1], port)
		return runSides(ctx, (*exec.Cmd).Start, (*exec.Cmd).Start, job, sink)
	})
}

// rounds runs all jobs once per round.
func (r *appsRun) rounds(ctx context.Context, jobs []bench.Job, run func(bench.Job, bench.Sink) error) error {
	for range r.flags.rounds {
		for _, job := range jobs {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			sink := &appSink{reportSink: reportSink{kind: job.Kind, report: r.report, progress: r.progress}, job: job}
			if err := run(job, sink); err != nil {
				return err
			}
		}
	}
	return nil
}

// appSink joins the results of both sides of each program.
type appSink struct {
	reportSink
	job  bench.Job
	last *bench.AppSide // result of the first side, until the second arrives
}

// App handles the result of one side. The two sides of a program arrive before the next program begins.
func (s *appSink) App(x bench.AppSide) {
	if s.last == nil {
		s.last = &x
		return
	}
	a, b := *s.last, x
	s.last = nil
	if a.Role == bench.Responder {
		a, b = b, a
	}
	result, round := a.Result(s.job.Apps.Over, !s.job.Unpinned, s.job.TLS != nil), bench.JoinApp(a, b)
	s.report.AddApp(result, round)
	s.progress.done(appLine(result, round))
}
