package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/bench/apps"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// An agent is one side of a run. The parent starts it inside a namespace, writes one Job to its standard input, and reads messages
// from its standard output, one JSON object a line. A line on standard input ends a Meet. The end of standard input means that the
// parent gave up or died.

// message is one line of output of an agent. Exactly one field is set, except that fields may qualify an error.
type message struct {
	Meet     string          `json:"meet,omitempty"`
	Started  *bench.Spec     `json:"started,omitempty"`
	Result   *bench.Result   `json:"result,omitempty"`
	Interval *bench.Interval `json:"interval,omitempty"`
	Baseline *bench.Baseline `json:"baseline,omitempty"`
	Stage    string          `json:"stage,omitempty"`
	Conns    *bench.ConnSide `json:"conns,omitempty"`
	App      *bench.AppSide  `json:"app,omitempty"`
	Captured *bench.Captured `json:"captured,omitempty"`
	Error    string          `json:"error,omitempty"`
	Follows  bool            `json:"follows,omitempty"` // the error is a consequence of the end of the other side or of the run
	Done     bool            `json:"done,omitempty"`
}

// pinnedEnv is set in an agent that is already pinned to its core.
const pinnedEnv = "NDPERF_PINNED"

// agentExitDelay is how long an agent may take to close its adapter after the end of its parent. Then it exits.
const agentExitDelay = 2 * time.Second

func newAgent() *cobra.Command {
	core := -1
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "One side of a run; started by ndperf itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if core >= 0 && os.Getenv(pinnedEnv) == "" {
				if err := execOnCore(core); err != nil {
					return fmt.Errorf("pin to core %d: %w", core, err)
				}
			}
			return runAgent(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().IntVar(&core, "core", -1, "index of the allowed core to run on")
	return cmd
}

// execOnCore pins this thread to the n-th core that the process may use, and executes the program again. Only pinning before the Go
// runtime starts affects all threads, and GOMAXPROCS then follows by itself.
func execOnCore(n int) error {
	runtime.LockOSThread()
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return err
	}
	n %= allowed.Count()
	for cpu := 0; ; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		if n == 0 {
			one.Set(cpu)
			break
		}
		n--
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	env := append(os.Environ(), pinnedEnv+"="+strconv.Itoa(n))
	return unix.Exec("/proc/self/exe", os.Args, env)
}

// runAgent runs one job and reports its result. It returns errors of the channel to the parent only.
func runAgent(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	var job bench.Job
	if err := json.Unmarshal(first, &job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	a := &agent{out: json.NewEncoder(out), released: make(chan struct{}, 1)}
	go func() {
		for {
			if _, err := lines.ReadBytes('\n'); err != nil {
				cancel()
				time.AfterFunc(agentExitDelay, func() { os.Exit(1) })
				return
			}
			a.released <- struct{}{}
		}
	}()
	do := job.Run
	if job.Kind == bench.KindApps {
		do = func(ctx context.Context, c bench.Coordinator, s bench.Sink) error { return apps.Run(ctx, job, c, s) }
	}
	if err := do(ctx, a, a); err != nil {
		follows := errors.Is(err, nd.ErrCanceled) || errors.Is(err, context.Canceled)
		return errors.Join(a.send(message{Error: cli.OneLine(err), Follows: follows}), err)
	}
	return a.send(message{Done: true})
}

// agent is the Coordinator and Sink of a job whose other side runs in another process.
type agent struct {
	mu       sync.Mutex // guards out
	out      *json.Encoder
	released chan struct{}
}

func (a *agent) send(m message) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Encode(m)
}

// report sends a message. An error means that the parent is dead, which ends this process anyway.
func (a *agent) report(m message) { _ = a.send(m) }

func (a *agent) Meet(ctx context.Context, point string) error {
	if err := a.send(message{Meet: point}); err != nil {
		return fmt.Errorf("meet at %q: %w", point, err)
	}
	select {
	case <-a.released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the other side at %q: %w", point, context.Cause(ctx))
	}
}

func (a *agent) Started(s bench.Spec)      { a.report(message{Started: &s}) }
func (a *agent) Result(r bench.Result)     { a.report(message{Result: &r}) }
func (a *agent) Baseline(b bench.Baseline) { a.report(message{Baseline: &b}) }
func (a *agent) Interval(x bench.Interval) { a.report(message{Interval: &x}) }
func (a *agent) Stage(what string)         { a.report(message{Stage: what}) }

func (a *agent) Captured(c bench.Captured) { a.report(message{Captured: &c}) }

func (a *agent) App(s bench.AppSide) { a.report(message{App: &s}) }

func (a *agent) Connections(s bench.ConnSide) { a.report(message{Conns: &s}) }
