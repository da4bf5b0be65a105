package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Role is the role of a process in a run.
type Role string

// The requester posts the measured requests; the responder serves them.
const (
	Requester Role = "requester"
	Responder Role = "responder"
)

// End is the address of one side. Interface, Ifindex and MAC are needed for raw only.
type End struct {
	Addr      netip.AddrPort `json:"addr"`
	Interface string         `json:"interface,omitempty"`
	Ifindex   int            `json:"ifindex,omitempty"`
	MAC       string         `json:"mac,omitempty"`
}

// KindND is the job kind that runs specs over package nd. All other kinds are baselines.
const KindND = "nd"

// Job is the task of one process of a pair. Both processes get the same specs and opposite roles.
type Job struct {
	Kind     string   `json:"kind"`
	Role     Role     `json:"role"`
	Local    End      `json:"local"`
	Peer     End      `json:"peer"`
	Specs    []Spec   `json:"specs"`
	Datapath string   `json:"datapath"`           // auto, generic, native, udp, ring or tcx
	UDPPort  uint16   `json:"udp_port"`           // zero means the default
	Bulk     string   `json:"bulk,omitempty"`     // auto, off or only
	Unpinned bool     `json:"unpinned,omitempty"` // both processes may use every core
	Parallel Parallel `json:"parallel,omitzero"`  // of KindND
	PCAP     string   `json:"pcap,omitempty"`
	Snap     int      `json:"snap,omitempty"`
	// Interval is the time from one Interval of a test of KindND to the next; 0 for none.
	Interval time.Duration `json:"interval,omitempty"`

	// TLS encrypts the connections of KindND, KindTCPTLS, KindConn and KindApps; nil for none.
	TLS *Identity `json:"tls,omitempty"`

	Conn *ConnSpec `json:"conn,omitempty"` // of KindConn, which does not use Specs
	Apps *AppPlan  `json:"apps,omitempty"` // of KindApps, which does not use Specs
}

// Coordinator synchronizes the two processes of a job: Meet returns after both have called it with the same point.
type Coordinator interface {
	Meet(ctx context.Context, point string) error
}

// Sink receives the results of a job as they arise. Either side may measure.
type Sink interface {
	Started(Spec)
	Result(Result)
	Interval(Interval) // progress of a test
	Baseline(Baseline)
	Stage(string) // name of the next stage, for jobs without specs
	Connections(ConnSide)
	App(AppSide)
	Captured(Captured) // at the end, if the packets of a side are captured
}

// connectTimeout bounds every wait for the peer process outside a measurement. Opening an AF_XDP socket on a queue that was just
// closed may take two seconds (xdp.DefaultBindTimeout).
const connectTimeout = 10 * time.Second

// budget returns the time after which a spec counts as hung: warm-up, measurement, verification, and slack for a busy machine.
func (s Spec) budget() time.Duration { return 2*s.Duration + 3*connectTimeout }

// Budget bounds the whole job.
func (j Job) Budget() time.Duration {
	total := 2 * connectTimeout
	if j.Conn != nil {
		total += j.Conn.budget()
	}
	if j.Apps != nil {
		for _, s := range j.Apps.Specs {
			total += s.Budget()
		}
	}
	for _, s := range j.Specs {
		total += s.budget()
	}
	return total
}

// warmUp returns how long a spec runs before the measurement, for caches, branch predictors, neighbour entries and congestion
// windows.
func (s Spec) warmUp() time.Duration {
	return min(max(s.Duration/10, 5*time.Millisecond), 200*time.Millisecond)
}

// Run runs the job. It returns when the job is complete, has failed, or ctx ends.
func (j Job) Run(ctx context.Context, c Coordinator, sink Sink) error {
	ctx, cancel := context.WithTimeout(ctx, j.Budget())
	defer cancel()
	switch j.Kind {
	case KindTCP, KindTCPSpin, KindTCPBlock, KindTCPTLS:
		return j.runTCP(ctx, c, sink)
	case KindRaw:
		return j.runRaw(ctx, c, sink)
	case KindConn:
		return j.runConn(ctx, c, sink)
	case KindNDPlain:
		j.TLS = nil
		return j.runND(ctx, c, plainSink{sink})
	case KindND:
		if j.Parallel.Several() || j.Parallel.Streams > 0 {
			return j.runParallel(ctx, c, sink)
		}
		return j.runND(ctx, c, sink)
	}
	if t, ok := tools[j.Kind]; ok {
		return j.runTool(ctx, t, c, sink)
	}
	return fmt.Errorf("job kind %q is unknown", j.Kind)
}
