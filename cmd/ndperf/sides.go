package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// killDelay is the time from the request to end until an agent is killed. It exceeds agentExitDelay.
const killDelay = 4 * time.Second

// side is one agent process as the parent sees it.
type side struct {
	role     bench.Role
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	stderr   tail
	messages *json.Decoder
}

// event is a message and the side that sent it. err is set once, at the end of the side.
type event struct {
	from *side
	msg  message
	err  error
	end  bool
}

// launch starts a command, for example with netlab inside a namespace.
type launch func(*exec.Cmd) error

// startSide starts an agent with its job, pinned to a core unless core is negative. The agent ends with this process: its standard
// input closes, and netlab has set a parent-death signal.
func startSide(ctx context.Context, start launch, job bench.Job, core int) (*side, error) {
	s := &side{role: job.Role}
	s.cmd = exec.CommandContext(ctx, "/proc/self/exe", "agent", "--core", strconv.Itoa(core))
	s.cmd.Args[0] = "ndperf"
	// A separate process group does not receive Ctrl-C, so the parent decides how the agent ends.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stderr = &s.stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	// Closing its input asks the agent to close its adapter and exit. After WaitDelay it is killed.
	s.cmd.Cancel = stdin.Close
	s.cmd.WaitDelay = killDelay
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.messages = json.NewDecoder(stdout)
	if err := start(s.cmd); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(stdin).Encode(job); err != nil {
		if ctx.Err() != nil {
			_ = s.stop() // it was told to end
			return nil, context.Cause(ctx)
		}
		return nil, errors.Join(fmt.Errorf("hand the job to the %s: %w", job.Role, err), s.stop())
	}
	return s, nil
}

// stop ends the agent and waits for it.
func (s *side) stop() error {
	_ = s.stdin.Close() // already closed if the run was cancelled
	return s.cmd.Wait()
}

// pump turns the agent's output into events until the agent ends, reaps it, and reports how it ended.
func (s *side) pump(events chan<- event) {
	done := false
	for {
		var m message
		err := s.messages.Decode(&m)
		if err != nil {
			break
		}
		done = done || m.Done || m.Error != ""
		events <- event{from: s, msg: m}
	}
	err := s.stop()
	if done {
		err = nil // the agent has reported its result, so the exit status does not matter
	} else {
		err = s.obituary(err)
	}
	events <- event{from: s, err: err, end: true}
}

// obituary describes an agent that ended without a report.
func (s *side) obituary(err error) error {
	how := "ended without a report"
	if err != nil {
		how = err.Error()
	}
	if last := s.stderr.lastLine(); last != "" {
		how += ": " + strings.TrimPrefix(last, "ndperf: ")
	}
	return fmt.Errorf("the %s process died: %s", s.role, how)
}

// runSides runs both sides of a job and relays their results. It returns when both processes have ended.
func runSides(ctx context.Context, local, peer launch, job bench.Job, sink bench.Sink) error {
	ctx, cancel := context.WithTimeoutCause(ctx, job.Budget()+killDelay,
		fmt.Errorf("the tests of job %s did not end within %v", job.Kind, job.Budget()+killDelay))
	defer cancel()
	requester, responder := job, job
	requester.Role, responder.Role = bench.Requester, bench.Responder
	requester.Local, requester.Peer = job.Local, job.Peer
	responder.Local, responder.Peer = job.Peer, job.Local
	responder.PCAP = serverFile(job.PCAP)

	events := make(chan event)
	cores := [2]int{0, 1}
	if job.Unpinned {
		cores = [2]int{-1, -1}
	}
	b, err := startSide(ctx, peer, responder, cores[1])
	if err != nil {
		return err
	}
	go b.pump(events)
	alive := 1
	a, err := startSide(ctx, local, requester, cores[0])
	if err != nil {
		if ctx.Err() != nil {
			err = nil // relay reports the reason
		}
		cancel()
	} else {
		go a.pump(events)
		alive++
	}
	return errors.Join(err, relay(cancel, events, alive, sink, ctx))
}

// relay handles events until no agent is alive. The first failure cancels the rest and is returned. If it is a consequence of the
// peer agent's end, a later failure of the peer replaces it.
func relay(cancel context.CancelFunc, events <-chan event, alive int, sink bench.Sink, ctx context.Context) error {
	var first error
	replaceable := false
	fail := func(err error, follows bool) {
		switch {
		case err == nil:
		case first == nil:
			first, replaceable = err, follows
			if ctx.Err() != nil {
				first, replaceable = context.Cause(ctx), false
			}
			cancel()
		case replaceable && !follows:
			first, replaceable = err, false
		}
	}
	var waiting *event
	for alive > 0 {
		e := <-events
		switch m := e.msg; {
		case e.end:
			alive--
			fail(e.err, first != nil) // all agents were told to end
		case m.Error != "":
			fail(fmt.Errorf("%s: %s", e.from.role, m.Error), m.Follows)
		case m.Meet != "" && waiting == nil:
			waiting = &e
		case m.Meet != "":
			fail(release(*waiting, e), false)
			waiting = nil
		case m.Started != nil:
			sink.Started(*m.Started)
		case m.Result != nil:
			sink.Result(*m.Result)
		case m.Interval != nil:
			sink.Interval(*m.Interval)
		case m.Baseline != nil:
			sink.Baseline(*m.Baseline)
		case m.Stage != "":
			sink.Stage(m.Stage)
		case m.Conns != nil:
			sink.Connections(*m.Conns)
		case m.App != nil:
			sink.App(*m.App)
		case m.Captured != nil:
			sink.Captured(*m.Captured)
		}
	}
	if first == nil && ctx.Err() != nil {
		first = context.Cause(ctx)
	}
	return first
}

// release lets two agents continue that wait at the same point.
func release(x, y event) error {
	if x.msg.Meet != y.msg.Meet || x.from == y.from {
		return fmt.Errorf("the two sides wait at different points: %s at %q, %s at %q",
			x.from.role, x.msg.Meet, y.from.role, y.msg.Meet)
	}
	for _, e := range []event{x, y} {
		// An agent that has ended has its own end event, which is more useful than EPIPE.
		if _, err := io.WriteString(e.from.stdin, "go\n"); err != nil &&
			!errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
	return nil
}

// tail keeps the end of a process's standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailBytes is enough for a panic with its goroutines.
const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = t.buf[extra:]
	}
	return len(p), nil
}

// lastLine returns the reason in the output: the first line of a panic if there is one, otherwise the last line.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := bytes.Index(t.buf, []byte("panic: ")); at >= 0 {
		line, _, _ := bytes.Cut(t.buf[at:], []byte("\n"))
		return string(line)
	}
	trimmed := bytes.TrimRight(t.buf, "\n")
	return string(trimmed[bytes.LastIndexByte(trimmed, '\n')+1:])
}
