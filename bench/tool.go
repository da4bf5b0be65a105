package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kinds of baseline that are programs of others, over kernel TCP.
const (
	KindIperf3   = "iperf3"
	KindSockperf = "sockperf"
	KindUCX      = "ucx" // ucx_perftest over its tcp transport
)

// tool is a program of others: a server and a client of it.
type tool struct {
	program string
	tests   []Test // nd tests that it stands beside
	server  func(j Job) []string
	client  func(j Job, s Spec) []string
	env     func(j Job) []string
	parse   func(out []byte, s Spec, b *Baseline) error
}

var tools = map[string]tool{
	KindIperf3: {
		program: "iperf3", tests: []Test{WriteBW}, parse: parseIperf3,
		server: func(j Job) []string { return []string{"-s", "-B", host(j.Local), "-p", port(j.Local)} },
		client: func(j Job, s Spec) []string {
			return []string{"-c", host(j.Peer), "-p", port(j.Peer), "-t", seconds(s), "-O", "0", "-l", strconv.Itoa(min(s.Size, 1<<20)), "-J"}
		},
	},
	KindSockperf: {
		program: "sockperf", tests: []Test{WriteLat, SendLat}, parse: parseSockperf,
		server: func(j Job) []string { return []string{"server", "--tcp", "-i", host(j.Local), "-p", port(j.Local)} },
		client: func(j Job, s Spec) []string {
			return []string{"ping-pong", "--tcp", "-i", host(j.Peer), "-p", port(j.Peer), "-m", strconv.Itoa(max(s.Size, sockperfLeast)), "-t", seconds(s)}
		},
	},
	KindUCX: {
		program: "ucx_perftest", tests: []Test{WriteLat, WriteBW}, parse: parseUCX,
		server: func(j Job) []string { return []string{"-p", port(j.Local)} },
		client: func(j Job, s Spec) []string {
			test, n := "ucp_put_bw", ucxBytes/s.Size
			if s.Test.IsLatency() {
				test, n = "tag_lat", ucxPings
			}
			return []string{host(j.Peer), "-p", port(j.Peer), "-t", test, "-s", strconv.Itoa(s.Size), "-n", strconv.Itoa(min(max(n, ucxLeast), ucxPings)), "-w", "100", "-f"}
		},
		env: func(j Job) []string { return []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=" + j.Local.Interface} },
	},
}

const (
	sockperfLeast = 14        // bytes of its header
	ucxBytes      = 256 << 20 // of a stream: it counts operations and not time
	ucxPings      = 2000
	ucxLeast      = 20
	// toolPatience bounds a run of a tool beside its duration, and toolStart the time until it listens.
	toolPatience = 20 * time.Second
	toolStart    = 5 * time.Second
)

func host(e End) string { return e.Addr.Addr().String() }
func port(e End) string { return strconv.Itoa(int(e.Addr.Port())) }

// seconds is the duration in whole seconds, which is all that they take.
func seconds(s Spec) string {
	return strconv.Itoa(int(max((s.Duration+time.Second-1).Truncate(time.Second), time.Second) / time.Second))
}

// InstalledTools are the kinds of baseline whose programs are installed.
func InstalledTools() (kinds []string) {
	for _, kind := range []string{KindIperf3, KindSockperf, KindUCX} {
		if _, err := exec.LookPath(tools[kind].program); err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// ToolRivals are the jobs of all rounds of tools beside specs, pinned and not. A Send has one only if its receiver sleeps, as theirs do.
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

// runTool runs the job's specs by a tool: the responder has its server, and a new one for each spec.
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

func (j Job) toolServer(ctx context.Context, t tool, _ Spec, meet func(string) error, _ Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := j.toolCommand(ctx, t, t.server(j))
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = cmd.Wait() }() // it is killed: a server has no other end
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
		sink.Stage(fmt.Sprintf("%s %s is left out: %v", j.Kind, s, err)) // of a program of others nobody here can say why
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
		return nil, fmt.Errorf("what %s said is not understood: %w", t.program, err)
	}
	b.setRate()
	return b, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// awaitListener returns when somebody in this namespace listens on a TCP port. Nobody connects for that: a server might take it for a client.
func awaitListener(ctx context.Context, at uint16) error {
	ctx, cancel := context.WithTimeoutCause(ctx, toolStart, fmt.Errorf("nothing listens on port %d after %v", at, toolStart))
	defer cancel()
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
		case <-tick.C:
		}
	}
}

// listens looks for a listener on a port in the kernel's table of sockets.
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

// parseIperf3 takes what the receiver counted. Processor time is in percent of one core.
func parseIperf3(out []byte, s Spec, b *Baseline) error {
	var said struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes   uint64  `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return err
	}
	if said.Error != "" {
		return errors.New(said.Error)
	}
	r := said.End.Received
	b.Bytes, b.Seconds, b.Ops = r.Bytes, r.Seconds, r.Bytes/uint64(s.Size)
	if b.Ops == 0 {
		return errors.New("it moved less than a message")
	}
	b.CPUUS = (said.End.CPU.Host + said.End.CPU.Remote) / 100 * r.Seconds * 1e6 / float64(b.Ops)
	return nil
}

// parseSockperf takes the distribution of half round trips.
func parseSockperf(out []byte, s Spec, b *Baseline) error {
	l := &Latency{}
	for line := range strings.Lines(string(out)) {
		var ops uint64
		var took float64
		if _, rest, ok := strings.Cut(line, "[Valid Duration] RunTime="); ok {
			if _, err := fmt.Sscanf(rest, "%f sec; SentMessages=%d;", &took, &ops); err != nil {
				return err
			}
			b.Ops, b.Bytes, b.Seconds = ops, ops*uint64(s.Size), took
		}
		_, rest, ok := strings.Cut(line, "---> ")
		name, value, both := strings.Cut(rest, "=")
		if !ok || !both {
			continue
		}
		us, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return err
		}
		to := map[string]*float64{
			"<MAX> observation": &l.Max, "<MIN> observation": &l.Min, "percentile 99.900": &l.P999, "percentile 99.000": &l.P99,
			"percentile 90.000": &l.P90, "percentile 50.000": &l.P50,
		}[strings.TrimSpace(name)]
		if to != nil {
			*to = us
		}
	}
	if b.Ops == 0 || l.P50 == 0 {
		return errors.New("it says neither how many messages nor a median")
	}
	b.LatIs, b.LatUS = HalfRoundTrip, l
	return nil
}

// parseUCX takes the last line: operations, median, mean and overall mean in µs, then MiB and messages a second, of the last part and overall. A
// median is all that it says of a distribution.
func parseUCX(out []byte, s Spec, b *Baseline) error {
	line := strings.Fields(lastLine(bytes.TrimPrefix(out, []byte("\n"))))
	if len(line) != 8 {
		return fmt.Errorf("%d figures, want 8", len(line))
	}
	var f [8]float64
	for i, text := range line {
		var err error
		if f[i], err = strconv.ParseFloat(text, 64); err != nil {
			return err
		}
	}
	ops, median, mean := f[0], f[1], f[3]
	if ops <= 0 || median <= 0 || mean <= 0 {
		return errors.New("figures are not positive")
	}
	b.Ops, b.Bytes, b.Seconds = uint64(ops), uint64(ops)*uint64(s.Size), ops*mean/1e6
	if s.Test.IsLatency() {
		b.LatIs, b.LatUS = HalfRoundTrip, &Latency{Min: median, P50: median, P90: median, P99: median, P999: median, Max: median}
		b.Note = "only the median is known"
	}
	return nil
}
