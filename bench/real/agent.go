package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime/pprof"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// agentCommand is the first argument of the client's and the server's process.
const agentCommand = "agent"

// Roles of the two processes of a measurement.
const (
	clientSide = "client"
	serverSide = "server"
)

// Requests from the controlling process to an agent, one a line. The agent ends at the end of its input.
const (
	askBegin   = "begin"   // start to measure processor time
	askMeasure = "measure" // client only: repeat the operations and measure processor time
	askEnd     = "end"     // stop measuring
)

// replyFD is the descriptor for replies, because the program uses standard output and standard error.
const replyFD = 3

// leaveTimeout bounds the time for an agent to deliver its last bytes.
const leaveTimeout = 5 * time.Second

// task is the task of an agent, in its second argument.
type task struct {
	Side     string        `json:"side"`
	Case     string        `json:"case"`
	Over     string        `json:"over"`
	Local    netip.Addr    `json:"local"`
	Peer     netip.Addr    `json:"peer"`
	Duration time.Duration `json:"duration"`
	Profile  string        `json:"profile,omitempty"` // file for a CPU profile
}

// reply is the answer to one request. The first reply is sent when the agent is ready: a server listens, a client is connected and
// has warmed up.
type reply struct {
	Error    string        `json:"error,omitempty"`
	Datapath string        `json:"datapath,omitempty"`
	Ops      uint64        `json:"ops,omitempty"`
	Seconds  float64       `json:"seconds,omitempty"`
	P50      float64       `json:"p50,omitempty"` // microseconds
	P99      float64       `json:"p99,omitempty"`
	CPU      time.Duration `json:"cpu,omitempty"`
	Opened   float64       `json:"opened,omitempty"`     // idle connections opened per second
	Bytes    float64       `json:"bytes_each,omitempty"` // memory of this process per idle connection
}

// warmUp returns how long a client runs before it measures.
func warmUp(d time.Duration) time.Duration { return min(max(d/4, 50*time.Millisecond), time.Second) }

// agent is one side of a measurement.
type agent struct {
	task
	program program
	before  uint64 // bytes in use before connections were opened
	cpu     time.Duration
	profile *os.File
}

// runAgent returns the main function of an agent.
func runAgent(argument string) error {
	signal.Ignore(os.Interrupt) // a terminal sends it to every process, but the controlling process ends the agent
	out := json.NewEncoder(os.NewFile(replyFD, "replies"))
	err := serveTask(argument, bufio.NewScanner(os.Stdin), out)
	if err != nil {
		return errors.Join(err, out.Encode(reply{Error: err.Error()}))
	}
	return nil
}

func serveTask(argument string, in *bufio.Scanner, out *json.Encoder) error {
	a := &agent{}
	if err := json.Unmarshal([]byte(argument), &a.task); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	var err error
	if a.program, err = named(a.Case); err != nil {
		return err
	}
	n, err := newNetwork(a.Over, a.Local, a.Peer)
	if err != nil {
		return err
	}
	if a.program.idle > 0 {
		a.before = memoryUse()
	}
	if a.Side == serverSide {
		err = a.serve(n, in, out)
	} else {
		err = a.request(n, in, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if left := n.wait(ctx); left != nil && err == nil {
		err = fmt.Errorf("connections are still open %v after they were closed: %w", leaveTimeout, left)
	}
	return err
}

func (a *agent) serve(n *network, in *bufio.Scanner, out *json.Encoder) error {
	s, err := a.program.serve(n)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if err := out.Encode(reply{}); err != nil {
		return errors.Join(err, s.stop())
	}
	return errors.Join(a.answer(in, out, nil), s.stop())
}

func (a *agent) request(n *network, in *bufio.Scanner, out *json.Encoder) error {
	l, err := a.program.connect(context.Background(), n)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if _, err = work(l, warmUp(a.Duration)); err != nil {
		return errors.Join(fmt.Errorf("warm up: %w", err), l.close())
	}
	if err := out.Encode(reply{Opened: l.opened}); err != nil {
		return errors.Join(err, l.close())
	}
	return errors.Join(a.answer(in, out, l), l.close())
}

// answer answers requests until the input ends.
func (a *agent) answer(in *bufio.Scanner, out *json.Encoder, l *load) error {
	for in.Scan() {
		var r reply
		var err error
		switch in.Text() {
		case askBegin:
			err = a.begin(&r)
		case askEnd:
			err = a.end(&r)
		case askMeasure:
			err = a.measure(l, &r)
		default:
			err = fmt.Errorf("unknown request %q", in.Text())
		}
		if err == nil {
			err = out.Encode(r)
		}
		if err != nil {
			return err
		}
	}
	return in.Err()
}

// begin starts to measure.
func (a *agent) begin(r *reply) error {
	if n := a.program.idle; n > 0 {
		r.Bytes = float64(int64(memoryUse()-a.before)) / float64(n)
	}
	if a.Profile != "" {
		var err error
		if a.profile, err = os.Create(a.Profile); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		if err := pprof.StartCPUProfile(a.profile); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	a.cpu = bench.CPUTime()
	return nil
}

// end reports the measurement.
func (a *agent) end(r *reply) error {
	r.CPU = bench.CPUTime() - a.cpu
	if a.Over == bench.OverND {
		r.Datapath = datapath()
	}
	if a.profile == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return a.profile.Close()
}

func (a *agent) measure(l *load, r *reply) error {
	if err := a.begin(r); err != nil {
		return err
	}
	from := time.Now()
	all, err := work(l, a.Duration)
	if err != nil {
		return errors.Join(err, a.end(r))
	}
	r.Seconds, r.Ops = time.Since(from).Seconds(), all.n
	r.P50, r.P99 = all.quantile(0.50), all.quantile(0.99)
	return a.end(r)
}

// tailSize is the size of an agent's kept output.
const tailSize = 2 * kib

// tail keeps the last bytes written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}
