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

// killDelay is how long an agent that was told to stop may take before it is killed. It exceeds agentExitDelay.
const killDelay = 4 * time.Second

// side is one agent process, seen from the parent.
type side struct {
	role     bench.Role
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	stderr   tail
	messages *json.Decoder
}

// event is a message together with the side it came from; err is set once, at the end of that side.
type event struct {
	from *side
	msg  message
	err  error
	end  bool
}

// launch starts a command: netlab does it inside a namespace.
type launch func(*exec.Cmd) error

// startSide starts an agent with its job, bound to a core unless that is negative. Whatever ends this process ends the agent as well: its standard
// input closes, and netlab asked the kernel for a parent-death signal.
func startSide(ctx context.Context, start launch, job bench.Job, core int) (*side, error) {
	s := &side{role: job.Role}
	s.cmd = exec.CommandContext(ctx, "/proc/self/exe", "agent", "--core", strconv.Itoa(core))
	s.cmd.Args[0] = "ndperf"
	// A process group of its own keeps Ctrl-C away from the agent: the parent decides how it ends.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stderr = &s.stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	// Closing its input asks the agent to close its adapter and go; the kill comes after WaitDelay.
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
	_ = s.stdin.Close() // closed before when the run was cancelled
	return s.cmd.Wait()
}

// pump turns the agent's output into events until it ends, reaps it, and says how it ended.
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
		err = nil // it said how its job went; the exit status adds nothing
	} else {
		err = s.obituary(err)
	}
	events <- event{from: s, err: err, end: true}
}

// obituary describes an agent that ended without saying how its job went.
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

// runSides runs both halves of a job, each where its launch puts it, and relays what they find out. It returns when both
// processes are gone.
func runSides(ctx context.Context, local, peer launch, job bench.Job, sink bench.Sink) error {
	ctx, cancel := context.WithTimeoutCause(ctx, job.Budget()+killDelay,
		fmt.Errorf("%s tests did not end within %v", job.Kind, job.Budget()+killDelay))
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
			err = nil // relay says why
		}
		cancel()
	} else {
		go a.pump(events)
		alive++
	}
	return errors.Join(err, relay(cancel, events, alive, sink, ctx))
}

// relay handles events until no agent is alive. The first failure cancels the rest. It is returned, unless it only follows from the end of
// the peer agent, whose failure may be reported later.
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
			fail(e.err, first != nil) // the rest was told to end
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

// release lets two agents go on that wait at the same point.
func release(x, y event) error {
	if x.msg.Meet != y.msg.Meet || x.from == y.from {
		return fmt.Errorf("the two sides lost step: %s is at %q, %s at %q",
			x.from.role, x.msg.Meet, y.from.role, y.msg.Meet)
	}
	for _, e := range []event{x, y} {
		// A side that is gone has its own end event, which says more than a broken pipe.
		if _, err := io.WriteString(e.from.stdin, "go\n"); err != nil &&
			!errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
	return nil
}

// tail keeps the end of what a process wrote to standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailBytes holds a panic with the goroutines that usually come with it.
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

// lastLine returns the reason in what was written: a panic's first line if there is one, else the last line.
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
