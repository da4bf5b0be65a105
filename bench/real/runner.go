package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab"
)

// idleTimes is how many times longer idle connections are measured than a program. If a program is measured for a second, this has
// one keep-alive interval of the connections of a case.
const idleTimes = 25

// options are the values of the command line.
type options struct {
	programs []program
	mtus     []int
	duration time.Duration
	rounds   int
	profile  string // directory
}

// runner runs all cases.
type runner struct {
	options
	report   *bench.Report
	progress *progress
	failures []error
}

// all runs all rounds at all MTUs. A failed case does not stop the run.
func (r *runner) all(ctx context.Context) error {
	for _, mtu := range r.mtus {
		if err := r.at(ctx, mtu); err != nil {
			return err
		}
	}
	return errors.Join(r.failures...)
}

// at runs all rounds at one MTU. Both transports use the same link, with all kernel offloads.
func (r *runner) at(ctx context.Context, mtu int) (err error) {
	pair, err := netlab.NewPair(netlab.PairConfig{MTU: mtu, Queues: 1, Offloads: true, StaticNeighbours: true})
	if err != nil {
		return fmt.Errorf("build a veth pair with MTU %d: %w", mtu, err)
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	r.report.Pairs = append(r.report.Pairs, bench.Pair{For: "real programs", MTU: mtu, Offloads: true, Queues: 1})
	for round := range r.rounds {
		for _, p := range r.programs {
			if err := r.compare(ctx, pair, p, mtu, round); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				err = fmt.Errorf("%s, MTU %d, round %d, %w", p.name, mtu, round+1, err)
				r.progress.note(err.Error())
				r.failures = append(r.failures, err)
			}
		}
	}
	return nil
}

// compare runs a case over both transports. The order alternates between rounds.
func (r *runner) compare(ctx context.Context, pair *netlab.Pair, p program, mtu, round int) error {
	defer r.progress.skipTo(r.progress.started + 2)
	order := []string{bench.OverTCP, bench.OverND}
	if round%2 == 1 {
		order = []string{bench.OverND, bench.OverTCP}
	}
	sides := map[string]bench.RealSide{}
	result := bench.RealResult{Case: p.name, MTU: mtu, Idle: p.idle}
	for _, over := range order {
		r.progress.start(fmt.Sprintf("MTU %d, round %d: %s over %s", mtu, round+1, p.name, over))
		m := measurement{pair: pair, program: p, over: over, duration: r.duration}
		if p.idle > 0 {
			m.duration *= idleTimes
		}
		if r.profile != "" {
			m.profile = filepath.Join(r.profile, fmt.Sprintf("%s-mtu%d-%s-%%s.%d.pprof", p.name, mtu, over, round+1))
		}
		s, path, err := m.run(ctx)
		if err != nil {
			return fmt.Errorf("over %s: %w", over, err)
		}
		sides[over] = s
		if path != "" {
			result.Datapath = path
		}
	}
	r.report.AddReal(result, bench.RealRound{TCP: sides[bench.OverTCP], ND: sides[bench.OverND]})
	return nil
}

// measurement is one case over one transport, with two processes.
type measurement struct {
	pair     *netlab.Pair
	program  program
	over     string
	duration time.Duration
	profile  string // pattern of file names, with a place for the side's name
}

// run returns the results of both sides, and the datapath of ndnet.
func (m measurement) run(ctx context.Context) (found bench.RealSide, path string, err error) {
	many := time.Duration(m.program.idle) * perIdle // connections need additional time
	server, err := m.start(ctx, serverSide)
	if err != nil {
		return found, "", err
	}
	defer server.kill()
	if _, err := server.await("start", setupTimeout); err != nil {
		return found, "", err
	}
	client, err := m.start(ctx, clientSide)
	if err != nil {
		return found, "", err
	}
	defer client.kill()
	ready, err := client.await("start", setupTimeout+warmUp(m.duration)+many)
	if err != nil {
		return found, "", errors.Join(err, server.finish(endTimeout))
	}
	began, err := server.ask(askBegin, stepTimeout)
	if err != nil {
		return found, "", err
	}
	asked, err := client.ask(askMeasure, m.duration+stepTimeout)
	if err != nil {
		return found, "", errors.Join(err, server.finish(endTimeout))
	}
	served, err := server.ask(askEnd, stepTimeout)
	if err != nil {
		return found, "", err
	}
	if err := errors.Join(client.finish(endTimeout+many), server.finish(endTimeout+many)); err != nil {
		return found, "", err
	}
	found = bench.RealSide{
		Ops: asked.Ops, Seconds: asked.Seconds, P50US: asked.P50, P99US: asked.P99,
		ClientCPU: asked.CPU, ServerCPU: served.CPU,
		Opened: ready.Opened, ClientBytes: asked.Bytes, ServerBytes: began.Bytes,
	}
	return found, asked.Datapath, nil
}

// start starts the process of one side: the client is in namespace A, the server in B.
func (m measurement) start(ctx context.Context, name string) (*side, error) {
	where, from, to := m.pair.A, m.pair.AddrA.Addr(), m.pair.AddrB.Addr()
	if name == serverSide {
		where, from, to = m.pair.B, to, from
	}
	t := task{Side: name, Case: m.program.name, Over: m.over, Local: from, Peer: to, Duration: m.duration}
	if m.profile != "" {
		t.Profile = fmt.Sprintf(m.profile, name)
	}
	return startSide(ctx, where, t)
}

// progress shows the present measurement and the remaining time on w: on a terminal as one changing line, otherwise as a line for
// each.
type progress struct {
	w        io.Writer
	terminal bool
	total    int
	started  int
	began    time.Time
}

func (p *progress) start(what string) {
	left := "…"
	if p.started > 0 {
		each := time.Since(p.began) / time.Duration(p.started)
		left = fmt.Sprintf("%v left", (each * time.Duration(p.total-p.started)).Round(time.Second))
	}
	p.started++
	p.print(fmt.Sprintf("[%d/%d, %s] %s", p.started, p.total, left, what))
}

func (p *progress) print(line string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.w, line)
}

// skipTo counts measurements that are skipped because the measurement to compare with has failed.
func (p *progress) skipTo(started int) { p.started = started }

// note prints a permanent line.
func (p *progress) note(line string) {
	p.print(line)
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}

// clear removes the changing line.
func (p *progress) clear() {
	if p.terminal {
		p.print("")
	}
}

// makeDir makes the directory of profiles.
func makeDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	return nil
}
