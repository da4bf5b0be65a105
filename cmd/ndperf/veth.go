package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab"
)

// tcpPort and ndPort are free in namespaces used only by ndperf.
const (
	tcpPort = 7000
	ndPort  = 9000
)

// defaultMTUs are Ethernet, jumbo frames, and nearly the largest IP datagram.
var defaultMTUs = []int{1500, 9000, 65000}

// rpsMask is the format of rps_cpus: hexadecimal, in groups of 32 bits.
var rpsMask = regexp.MustCompile(`^[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{1,8})*$`)

// vethFlags are the values of the flags of veth.
type vethFlags struct {
	runFlags
	mtus      []int
	baselines []string
	rps       string
	beside    int
}

func newVeth() *cobra.Command {
	f := &vethFlags{}
	cmd := &cobra.Command{
		Use:   "veth",
		Short: "Measure between two network namespaces on this machine (root)",
		Long: `veth builds two anonymous network namespaces and a veth pair, starts one process in each, connects two
queue pairs, moves and verifies real bytes, and prints the figures beside raw AF_XDP and kernel TCP of the
same run. Nothing is left behind, however it ends. With --tls, nd is encrypted, TCP is crypto/tls over TCP, and latency
is measured in turn with latency of nd without encryption.

All tests run at every MTU. With --event and with --beside, nd runs twice: pinned, with one core for each process, and on all cores.`,
		Example: `  ndperf veth                                          everything, about three minutes
  ndperf veth --duration 300ms --mtu 1500              a quick look
  ndperf veth --tests write_lat --event                latency with sleeping completion waits
  ndperf veth --tls --tests write_lat,write_bw         encrypted, beside crypto/tls over TCP
  ndperf veth --tests write_bw --sizes 4K,64K,1M       bandwidth over message size
  ndperf veth --baseline none --json -                 only nd, as JSON on standard output`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVeth(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	f.registerParallel(cmd, true)
	registerTLS(cmd, &f.tls)
	f.capture.register(cmd)
	f.registerBounds(cmd)
	cmd.Flags().IntSliceVar(&f.mtus, "mtu", defaultMTUs, "link MTUs to measure at")
	cmd.Flags().StringSliceVar(&f.baselines, "baseline", []string{"raw", "tcp"}, "what to measure beside nd: "+baselinesAre)
	cmd.Flags().StringVar(&f.rps, "rps", "", "receive packet steering mask of both ends, as in rps_cpus: more bandwidth, but more latency")
	registerBeside(cmd, &f.beside)
	return cmd
}

// vethRun is one run of the veth command.
type vethRun struct {
	rps, bulk string
	report    *bench.Report
	capture   captureFlags
	interval  time.Duration
	reverse   bool
	own       *bench.Identity // nil without --tls
}

func runVeth(ctx context.Context, f *vethFlags, stdout, stderr io.Writer) error {
	if err := f.checkParallel(); err != nil {
		return err
	}
	specs, err := f.plan()
	if err != nil {
		return err
	}
	if err := checkMTUs(f.mtus); err != nil {
		return err
	}
	beside, err := parseBaselines(f.baselines)
	if err != nil {
		return err
	}
	if f.parallel.Several() {
		beside = baselines{}
	}
	if err := checkBeside(f.beside); err != nil {
		return err
	}
	if f.rps != "" && !rpsMask.MatchString(f.rps) {
		return cli.Usagef("--rps %q is no mask of processors in hexadecimal, such as 3 for the first two", f.rps)
	}
	if err := f.capture.check(true, f.json, f.told.stream); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("veth makes network namespaces and loads an XDP program, which needs root: run it with sudo")
	}
	if f.tls && beside.tcp != bench.NoTCP {
		beside.tcp = bench.EncryptedTCP
	}
	beside.leaveOut(stderr)
	if err := f.capture.prepare(true, f.json, f.told.stream); err != nil {
		return err
	}
	stop, err := startBusy(f.beside)
	if err != nil {
		return err
	}
	defer stop()
	own, err := identity(f.tls)
	if err != nil {
		return err
	}
	r := &vethRun{rps: f.rps, bulk: f.bulk, report: newReport(), capture: f.capture, interval: f.told.interval, reverse: f.reverse, own: own}
	r.report.Beside = f.beside
	steps := planSteps(specs, []string{f.datapath}, f.mtus, beside, true)
	if f.tls && f.beside == 0 && !f.parallel.Several() && f.parallel.Streams == 0 {
		steps = besidePlain(steps)
	}
	if f.event || f.beside > 0 {
		steps = bothWays(steps)
	}
	steps = besideStreams(steps, f.parallel)
	out := output{f.json, f.told.stream, stdout, stderr, renderReport, f.bounds}
	return runSteps(ctx, out, r.report, steps, func(s step, p *progress) error { return r.do(ctx, s, p) })
}

// step is what runs on one new pair: nd, or all variants of its rivals in turn, of which the best is reported. Of rounds, the median is
// reported.
type step struct {
	jobs     []bench.Job
	rivals   bool
	rounds   bool // of latency over nd, encrypted and plain in turn
	mtu      int
	offloads bool // of the pair; only kernel sockets use them
	lines    int  // lines of output, for steps without specs
}

// figures returns the number of lines of output.
func (s *step) figures() int {
	n := s.lines
	for _, j := range s.jobs {
		each := 1
		if j.Parallel.Both {
			each = 2 // one for each direction
		}
		n += each * len(j.Specs)
	}
	return n
}

// planSteps returns the steps for each MTU. Latency is measured at the first MTU only, unless everywhere is set. Every test runs on
// every datapath. Rivals have variants instead; raw has none for plain sockets. Each rival runs right before the tests it is
// compared with, so that a change of the machine's clock rate affects both.
func planSteps(specs []bench.Spec, datapaths []string, mtus []int, beside baselines, everywhere bool) []step {
	var steps []step
	for i, mtu := range mtus {
		var here []bench.Spec
		for _, s := range specs {
			s.MTU = mtu
			if i == 0 || everywhere || !s.Test.IsLatency() {
				here = append(here, s)
			}
		}
		if len(here) == 0 {
			continue
		}
		rivals := func(raw bool, tcp bench.TCPRival, tools []string) {
			if jobs := append(bench.Rivals(here, raw, tcp), bench.ToolRivals(here, tools)...); len(jobs) > 0 {
				steps = append(steps, step{jobs: jobs, rivals: true, mtu: mtu, offloads: !raw})
			}
		}
		rivals(false, beside.tcp, beside.tools)
		rivals(beside.raw && (len(datapaths) == 1 || slices.ContainsFunc(datapaths, func(d string) bool { return d != "udp" })), bench.NoTCP, nil)
		for _, datapath := range datapaths {
			job := bench.Job{Kind: bench.KindND, Datapath: datapath, Specs: here}
			steps = append(steps, step{jobs: []bench.Job{job}, mtu: mtu, offloads: datapath == "udp"})
		}
	}
	return steps
}

// besidePlain measures encrypted latency in rounds, in turn with latency without encryption.
func besidePlain(steps []step) (all []step) {
	for _, s := range steps {
		if s.rivals {
			all = append(all, s)
			continue
		}
		rounds, rest := bench.BesidePlain(s.jobs[0])
		for i, jobs := range [][]bench.Job{rounds, rest} {
			if len(jobs) > 0 {
				s.jobs, s.rounds = jobs, i == 0
				all = append(all, s)
			}
		}
	}
	return all
}

// bothWays runs nd a second time with processes that may use every core, because real programs are rarely pinned.
func bothWays(steps []step) []step {
	for i := range steps {
		if s := &steps[i]; !s.rivals {
			for _, j := range slices.Clone(s.jobs) {
				j.Unpinned = true
				s.jobs = append(s.jobs, j)
			}
		}
	}
	return steps
}

// besideStreams runs nd on several connections if requested, and a second time beside streams.
func besideStreams(steps []step, p bench.Parallel) []step {
	alone := p
	alone.Streams = 0
	for i := range steps {
		s := &steps[i]
		if s.rivals {
			continue
		}
		for k := range s.jobs {
			s.jobs[k].Parallel = alone
		}
		if p.Streams > 0 {
			for _, j := range slices.Clone(s.jobs) {
				j.Parallel = p
				s.jobs = append(s.jobs, j)
			}
		}
	}
	return steps
}

// runStep runs the jobs of a step and adds their results to the report.
func runStep(s step, report *bench.Report, p *progress, run func(bench.Job, bench.Sink) error) error {
	var rounds bench.Report
	for _, job := range s.jobs {
		sink := &reportSink{job.Kind, report, p, job.Unpinned}
		if s.rivals || s.rounds {
			sink.report = &rounds
		}
		if err := run(job, sink); err != nil {
			return err
		}
	}
	report.Results = append(report.Results, bench.Medians(rounds.Results)...)
	report.Baselines = append(report.Baselines, bench.Best(rounds.Baselines)...)
	report.Captures = append(report.Captures, rounds.Captures...)
	return nil
}

// do builds a pair, runs the step on it, and removes it.
func (r *vethRun) do(ctx context.Context, s step, p *progress) (err error) {
	s.offloads = s.offloads || !s.rivals && r.bulk != "off" && r.rps == "" // for the bulk path, which is a kernel socket
	cfg := netlab.PairConfig{MTU: s.mtu, Queues: 1, Offloads: s.offloads, StaticNeighbours: true}
	if !s.rivals || !s.offloads { // kernel TCP may use every core
		cfg.RPSMask = r.rps
	}
	pair, err := netlab.NewPair(cfg)
	if err != nil {
		return fmt.Errorf("build a veth pair with MTU %d: %w", s.mtu, err)
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	r.notePair(s, cfg)
	return runStep(s, r.report, p, func(job bench.Job, sink bench.Sink) error {
		port := uint16(tcpPort)
		job.TLS = r.own
		if job.Kind == bench.KindND || job.Kind == bench.KindNDPlain {
			port = ndPort
			job.Bulk, job.Interval = r.bulk, r.interval
		}
		r.capture.apply(&job)
		job.Local = bench.End{
			Addr: netip.AddrPortFrom(pair.AddrA.Addr(), port), Interface: pair.NameA, Ifindex: pair.IfindexA,
			MAC: pair.MACA.String(),
		}
		job.Peer = bench.End{
			Addr: netip.AddrPortFrom(pair.AddrB.Addr(), port), Interface: pair.NameB, Ifindex: pair.IfindexB,
			MAC: pair.MACB.String(),
		}
		if r.reverse {
			job.Local, job.Peer = job.Peer, job.Local
			return runSides(ctx, pair.B.StartProcess, pair.A.StartProcess, job, sink)
		}
		return runSides(ctx, pair.A.StartProcess, pair.B.StartProcess, job, sink)
	})
}

func (r *vethRun) notePair(s step, cfg netlab.PairConfig) {
	p := bench.Pair{For: "nd,raw", MTU: s.mtu, Offloads: s.offloads, Queues: cfg.Queues, RPSMask: cfg.RPSMask}
	switch {
	case s.rivals && s.offloads:
		p.For = "tcp"
	case s.offloads:
		p.For = "nd"
	}
	if !slices.Contains(r.report.Pairs, p) {
		r.report.Pairs = append(r.report.Pairs, p)
	}
}

// reportSink adds the results of a job to the report and shows them in the progress.
type reportSink struct {
	kind     string
	report   *bench.Report
	progress *progress
	unpinned bool // of results
}

func (s *reportSink) Started(spec bench.Spec) { s.progress.start(s.kind + " " + spec.String()) }

func (s *reportSink) Result(x bench.Result) {
	x.Unpinned = s.unpinned
	s.report.Results = append(s.report.Results, x)
	s.progress.events.tell("result", x)
	s.progress.done(resultLine(x))
}

func (s *reportSink) Interval(x bench.Interval) {
	s.progress.events.tell("interval", x)
	s.progress.note(intervalLine(x))
}

func (s *reportSink) Baseline(b bench.Baseline) {
	s.report.Baselines = append(s.report.Baselines, b)
	s.progress.done(baselineLine(b))
}

// Stage shows the stage of a test of many connections. For an external program, it shows why there is no figure.
func (s *reportSink) Stage(what string) {
	if s.kind == bench.KindConn {
		s.progress.stage(what)
		return
	}
	s.progress.note(what)
	s.progress.skip()
}

func (s *reportSink) Captured(c bench.Captured) { s.report.Captures = append(s.report.Captures, c) }

// App is not called: programs have a sink of their own.
func (s *reportSink) App(bench.AppSide) {}

func (s *reportSink) Connections(x bench.ConnSide) {
	s.report.Connections = append(s.report.Connections, x)
	s.progress.done(connectionsLine(x))
}
