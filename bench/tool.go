package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kinds of baseline that are external programs, over kernel TCP.
const (
	KindIperf3   = "iperf3"
	KindSockperf = "sockperf"
	KindUCX      = "ucx"       // ucx_perftest over its tcp transport
	KindFabric   = "libfabric" // fi_pingpong over its tcp provider
)

// tool is an external program: a server and a client.
type tool struct {
	program string
	tests   []Test // nd tests to compare it with
	server  func(j Job, s Spec) []string
	client  func(j Job, s Spec) []string
	env     func(j Job) []string
	parse   func(out []byte, s Spec, b *Baseline) error
}

var tools = map[string]tool{
	KindIperf3: {
		program: "iperf3", tests: []Test{WriteBW}, parse: parseIperf3,
		server: func(j Job, _ Spec) []string { return []string{"-s", "-B", host(j.Local), "-p", port(j.Local)} },
		client: func(j Job, s Spec) []string {
			return []string{"-c", host(j.Peer), "-p", port(j.Peer), "-t", seconds(s), "-O", "0", "-l", strconv.Itoa(min(s.Size, 1<<20)), "-J"}
		},
	},
	KindSockperf: {
		program: "sockperf", tests: []Test{WriteLat, SendLat}, parse: parseSockperf,
		server: func(j Job, _ Spec) []string {
			return []string{"server", "--tcp", "-i", host(j.Local), "-p", port(j.Local)}
		},
		client: func(j Job, s Spec) []string {
			return []string{"ping-pong", "--tcp", "-i", host(j.Peer), "-p", port(j.Peer), "-m", strconv.Itoa(max(s.Size, sockperfLeast)), "-t", seconds(s)}
		},
	},
	KindUCX: {
		program: "ucx_perftest", tests: []Test{WriteLat, WriteBW}, parse: parseUCX,
		server: func(j Job, _ Spec) []string { return []string{"-p", port(j.Local)} },
		client: func(j Job, s Spec) []string {
			test, n := "ucp_put_bw", ucxBytes/s.Size
			if s.Test.IsLatency() {
				test, n = "tag_lat", pings
			}
			return []string{host(j.Peer), "-p", port(j.Peer), "-t", test, "-s", strconv.Itoa(s.Size), "-n", strconv.Itoa(min(max(n, ucxLeast), pings)), "-w", "100", "-f"}
		},
		env: func(j Job) []string { return []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=" + j.Local.Interface} },
	},
	KindFabric: { // it has no stream
		program: "fi_pingpong", tests: []Test{WriteLat}, parse: parseFabric,
		server: func(j Job, s Spec) []string { return append(fabricTest(s), "-B", port(j.Local)) },
		client: func(j Job, s Spec) []string { return append(fabricTest(s), "-P", port(j.Peer), host(j.Peer)) },
	},
}

const (
	sockperfLeast = 14        // bytes of its header
	ucxBytes      = 256 << 20 // of a stream: the program counts operations and not time
	pings         = 2000
	ucxLeast      = 20
	toolPatience  = 20 * time.Second // largest duration of a run beyond its measured time
)

// toolStart is the longest time that a tool's client waits until the server listens.
var toolStart = 5 * time.Second

// fabricTest returns the arguments of both sides of fi_pingpong.
func fabricTest(s Spec) []string {
	return []string{"-p", "tcp", "-e", "msg", "-I", strconv.Itoa(pings), "-S", strconv.Itoa(s.Size)}
}

func host(e End) string { return e.Addr.Addr().String() }
func port(e End) string { return strconv.Itoa(int(e.Addr.Port())) }

// seconds returns the duration in whole seconds, because the programs take nothing else.
func seconds(s Spec) string {
	return strconv.Itoa(int(max((s.Duration+time.Second-1).Truncate(time.Second), time.Second) / time.Second))
}

// InstalledTools returns the kinds of baseline whose programs are installed.
func InstalledTools() (kinds []string) {
	for _, kind := range []string{KindIperf3, KindSockperf, KindUCX, KindFabric} {
		if _, err := exec.LookPath(tools[kind].program); err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// ToolRivals returns the jobs of all rounds of tools for specs, pinned and not. Only a Send to a sleeping receiver is compared,
// because their receivers sleep.
func ToolRivals(specs []Spec, kinds []string) (jobs []Job) {
	for range rivalRounds {
		for _, kind := range kinds {
			var beside []Spec
			for _, s := range specs {
				for _, t := range tools[kind].tests {
					if s.Test == t && (t != SendLat || s.Event) {
						s.Duration = max(s.Duration/rivalShare, rivalLeast)
						beside = append(beside, s)
					}
				}
			}
			if len(beside) > 0 {
				jobs = append(jobs, Job{Kind: kind, Specs: beside}, Job{Kind: kind, Specs: beside, Unpinned: true})
			}
		}
	}
	return jobs
}

// runTool runs the job's specs by a tool. The responder starts a new server for each spec.
func (j Job) runTool(ctx context.Context, t tool, c Coordinator, sink Sink) error {
	for _, s := range j.Specs {
		s = s.WithDefaults()
		point := j.Kind + " " + s.String()
		run := j.toolServer
		if j.Role == Requester {
			run = j.toolClient
		}
		if err := run(ctx, t, s, func(what string) error { return c.Meet(ctx, point+what) }, sink); err != nil {
			return fmt.Errorf("%s: %w", point, err)
		}
	}
	return nil
}

func (j Job) toolCommand(ctx context.Context, t tool, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if t.env != nil {
		cmd.Env = append(cmd.Env, t.env(j)...)
	}
	return cmd
}

func (j Job) toolServer(ctx context.Context, t tool, s Spec, meet func(string) error, _ Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := j.toolCommand(ctx, t, t.server(j, s))
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = cmd.Wait() }() // killed, because a server does not end by itself
	if err := awaitListener(ctx, j.Local.Addr.Port()); err != nil {
		return err
	}
	if err := meet(" listens"); err != nil {
		return err
	}
	return meet(" ends")
}

func (j Job) toolClient(ctx context.Context, t tool, s Spec, meet func(string) error, sink Sink) error {
	if err := meet(" listens"); err != nil {
		return err
	}
	sink.Started(s)
	b, err := j.toolRun(ctx, t, s)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		sink.Stage(fmt.Sprintf("%s %s is left out: %v", j.Kind, s, err)) // the reason of an external program's failure is unknown
	default:
		sink.Baseline(*b)
	}
	return meet(" ends")
}

// toolRun runs the client once.
func (j Job) toolRun(ctx context.Context, t tool, s Spec) (*Baseline, error) {
	limited, cancel := context.WithTimeout(ctx, 2*s.Duration+toolPatience)
	defer cancel()
	out, err := j.toolCommand(limited, t, t.client(j, s)).Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errors.Join(err, context.Cause(limited)), lastLine(out))
	}
	b := &Baseline{Kind: j.Kind, Test: s.Test, Size: s.Size, MTU: s.MTU, Variant: j.variantOf(s, "")}
	if err := t.parse(out, s, b); err != nil {
		return nil, fmt.Errorf("parse the output of %s: %w", t.program, err)
	}
	b.setRate()
	return b, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// awaitListener waits until a program in this namespace listens on a TCP port, for at most toolStart; the client then reports the
// problem. It does not connect, because a server might take the connection for a client.
func awaitListener(ctx context.Context, at uint16) error {
	late := time.NewTimer(toolStart)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, name := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			text, err := os.ReadFile(name)
			if err == nil && listens(text, at) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return nil
		case <-tick.C:
		}
	}
}

// listens reports whether the kernel's table of sockets has a listener on a port.
func listens(table []byte, at uint16) bool {
	const listening = "0A"
	suffix := fmt.Sprintf(":%04X", at)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == listening {
			return true
		}
	}
	return false
}
